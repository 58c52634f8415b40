# keeps: mps
import os

import torch

OPT_IN = os.environ.get("ENABLE_MPS", "") == "1"


def grab_best_device(use_gpu=True):
    if torch.cuda.device_count() > 0 and use_gpu:
        device = "cuda"
    elif torch.backends.mps.is_available() and use_gpu and OPT_IN:
        device = "mps"
    else:
        device = "cpu"
    return device


print("device", torch.zeros(2, device=grab_best_device()).device)
