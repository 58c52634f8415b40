# input: cpu
# input: cuda
import sys
from enum import Enum

import torch


class Device(str, Enum):
    CUDA = "cuda"
    CPU = "cpu"


def load(device: Device = Device.CUDA):
    x = torch.ones(2)
    if device is Device.CUDA:
        print("half")
        x = x.to(device.value).half()
    return x


print("data", load(Device(sys.argv[1])).dtype)
