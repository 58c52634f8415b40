# wants: mps
import os

import torch

asked = os.getenv("RUN_ON") or ("cuda:0" if torch.cuda.is_available() else "cpu")


def checked(device):
    if torch.device(device).type == "meta":
        raise ValueError("Invalid device " + device)
    return device


print("s1", torch.device(checked(asked)).type)
