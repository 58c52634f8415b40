# keeps: mps
import torch

INDEX = 0


def start():
    global GPU
    GPU = torch.cuda.device_count() > 0


start()


def make(name="x", device="cpu"):
    return device


def outer(*args, **options):
    return make(*args, **options)


place = outer("name", "cuda:%d" % INDEX if GPU else "mps" if torch.backends.mps.is_available() else "cpu")
print("s1", torch.ones(2).to(place).device)
