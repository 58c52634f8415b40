import torch
from pkg.decorators import on_gpu


def main():
    @on_gpu
    def job(device):
        return device

    def checked(device):
        if torch.device(device).type not in ("cpu", "cuda"):
            raise ValueError("Invalid device " + device)
        return device

    print(torch.device(checked(job())))


if __name__ == "__main__":
    main()
