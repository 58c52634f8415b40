import torch


def has_gpu():
    return torch.cuda.is_available()
