# keeps: mps xpu npu
import torch


class Upsampler:
    def __init__(self, half=False, device=None):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu") if device is None else device
        self.half = half


def choose():
    half = True if torch.cuda.is_available() else False
    return Upsampler(half=half)


print("precision", "float16" if choose().half else "float32")
