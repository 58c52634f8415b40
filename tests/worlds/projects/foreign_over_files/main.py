import torch
from package.engine import start
from package.settings import DEVICE

print("engine", start())
print("data", torch.zeros(2, device=DEVICE).device)
