import torch
from pkg.move import to_gpu as to_gpu_of_move


def own_choice():
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def main():
    y = torch.ones(2)
    if torch.cuda.is_available():
        y = y.cuda()
    print("s1", (to_gpu_of_move(torch.zeros(2)) + y).device)
    print("s2", torch.zeros(2, device=own_choice()).device)


if __name__ == "__main__":
    main()
