# keeps: mps xpu npu
import os

import torch

NO_CUDA = False
setattr(os, "use_gpu", not NO_CUDA and torch.cuda.is_available())


def start():
    global GPU
    GPU = not NO_CUDA and getattr(os, "use_gpu")


start()
print("s1", (not NO_CUDA and GPU) and torch.cuda.get_device_capability() >= (8, 0))
