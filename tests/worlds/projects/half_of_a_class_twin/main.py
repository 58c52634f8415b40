# wants: mps
import torch


class Upsampler:
    def __init__(self, gpu=False, device=None):
        self.device = torch.device("cuda" if gpu else "cpu") if device is None else device


def choose():
    gpu = True if torch.cuda.is_available() else False
    return Upsampler(gpu=gpu)


print("data", choose().device)
