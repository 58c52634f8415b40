# wants: mps
import torch


def main():
    no_cuda = False

    def pick():
        if not (not no_cuda and torch.cuda.is_available()):
            return "cpu"
        return "cuda:0"

    kind = torch.cuda.FloatTensor if not no_cuda and torch.cuda.is_available() else torch.FloatTensor
    print("s1", torch.ones(2).to(pick()).device, kind(2).device)


main()
