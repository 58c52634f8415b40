import os

import torch

device = os.getenv("RUN_ON") or ("cuda:0" if torch.cuda.is_available() else "cpu")


def check(device):
    assert device in ("cpu", "cuda", "cuda:0", "mps"), device
    return device


print("s1", torch.device(check(device)))
