# wants: mps
import torch
from torch import autocast


def sample(shape, device="cuda"):
    with torch.no_grad():
        with autocast(device):
            x = torch.ones(shape).to(device)
            return x


print("device", sample((2,)).device)
