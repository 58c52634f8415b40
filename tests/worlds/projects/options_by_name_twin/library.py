import torch


def work(args: dict):
    size: str = args.pop("size")
    print("s1", made(size, **args).device)


def made(size, device):
    return torch.ones(2).to(device)
