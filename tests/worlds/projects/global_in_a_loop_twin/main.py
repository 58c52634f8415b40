# wants: mps
import torch

GPU = False


def init():
    global GPU
    GPU = torch.cuda.is_available()


init()
at = 0
while at < 1:
    print("s1", torch.device("cuda" if GPU else "cpu"))
    at += 1
