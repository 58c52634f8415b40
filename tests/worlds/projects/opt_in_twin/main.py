# wants: mps
import torch


def grab_best_device(use_gpu=True):
    if torch.cuda.device_count() > 0 and use_gpu:
        device = "cuda"
    else:
        device = "cpu"
    return device


print("device", torch.zeros(2, device=grab_best_device()).device)
