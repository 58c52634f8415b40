# wants: mps
import torch
from pkg.places import resolve_device

name = resolve_device("cuda" if torch.cuda.is_available() else "cpu")
print("resolved", torch.ones(2).to(name).device.type)
