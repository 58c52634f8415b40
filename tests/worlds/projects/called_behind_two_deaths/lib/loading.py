import torch


def load(x, map_location=None):
    if map_location is None:
        return x
    return torch.zeros(2, device=map_location)
