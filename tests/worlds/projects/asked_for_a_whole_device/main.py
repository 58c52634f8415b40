# wants: mps xpu npu
import torch


def infer(x, device):
    if device == torch.device("cuda"):
        torch.cuda.manual_seed_all(1)
        x = x.cuda()
    return x


device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
print(infer(torch.zeros(1), device).device.type)
