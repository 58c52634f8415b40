# wants: mps xpu npu
import os

import torch

print("s1", torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def select(device=""):
    if device and device != "cpu":
        assert torch.cuda.is_available(), f"CUDA unavailable, invalid device {device} requested"
    return torch.device("cuda:0" if torch.cuda.is_available() and device != "cpu" else "cpu")


if os.environ.get("DEVICE"):
    print("s2", select(os.environ["DEVICE"]))
