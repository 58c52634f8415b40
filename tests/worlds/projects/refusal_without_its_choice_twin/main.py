# env: DEVICE=cuda:1
# wants: mps
import os

import torch


def select(device=""):
    cpu = device == "cpu"
    if device and not cpu:
        assert torch.cuda.is_available(), f"CUDA unavailable, invalid device {device} requested"
    cuda = not cpu and torch.cuda.is_available()
    return torch.device("cuda:0" if cuda else "cpu")


print("chosen", select(os.environ.get("DEVICE", "")))
