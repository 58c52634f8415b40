# wants: mps
import torch
from pkg.decorators import on_gpu


def main():
    @on_gpu
    def job(device):
        return device

    print(torch.zeros(2, device=job()).device)


if __name__ == "__main__":
    main()
