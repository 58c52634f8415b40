# keeps: cpu nogpu
import torch
from torch import autocast


def sample(shape, device="cuda"):
    with autocast(device):
        print("enabled", torch.is_autocast_enabled())
        return torch.ones(shape)


print("device", sample((2,)).device)
