import torch
from lib.nets import Net


def own_choice():
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def main():
    net = Net()
    if torch.cuda.is_available():
        net.cuda()
    print("s1", net.start(torch.cuda.is_available()).device)
    print("s2", torch.zeros(2, device=own_choice()).device)


if __name__ == "__main__":
    main()
