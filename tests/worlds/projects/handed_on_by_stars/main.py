# keeps: mps
import torch


def make(name="x", device="cpu"):
    return device


def outer(*args, **options):
    return make(*args, **options)


print("s1", torch.device(outer(device="cuda:0" if torch.cuda.device_count() > 0 else "mps" if torch.backends.mps.is_available() else "cpu")))
