# wants: mps
import torch


def make(name="x", device="cpu"):
    return device


def outer(*args, **options):
    return make(*args, **options)


print("s1", torch.device(outer("x", "cuda" if torch.cuda.is_available() else "cpu")))
