# wants: mps
import torch


def pick(wanted=True):
    if not wanted:
        return "cpu"
    if not torch.cuda.is_available():
        return "cpu"
    return "cuda"


def backend():
    return "gloo"


held = (pick(), 2, backend())
print("device", torch.ones(2).to(held[0]).device)
