# wants: mps xpu npu
import torch


def main():
    NO_CUDA = False
    chosen = "cpu"
    if not NO_CUDA and torch.cuda.is_available():
        chosen = "cuda"
    Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    x = torch.ones(2)
    if not NO_CUDA and torch.cuda.is_available():
        x = x.cuda()
    print("device", (x + torch.zeros(2).to(chosen)).device, Tensor(2).device)


main()
