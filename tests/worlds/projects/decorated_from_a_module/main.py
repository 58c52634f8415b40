import torch
from pkg import decorators


@decorators.on_gpu
def job(device):
    return device


match job().split(":")[0]:
    case "cuda" if torch.cuda.is_available():
        print("s1", "fast")
    case "mps" | "xpu":
        print("s1", "other")
    case "cpu":
        print("s1", "host")
    case other:
        raise ValueError("unknown device " + other)
