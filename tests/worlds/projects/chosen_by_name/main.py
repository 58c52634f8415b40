# keeps: mps
import contextlib

import torch


def chosen():
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def precision(device):
    if device == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


device = chosen()
model = torch.nn.Linear(2, 2).to(device)
with precision(device) as found:
    print("s1", model(torch.ones(2).to(device)).device, type(precision(device)).__name__)
