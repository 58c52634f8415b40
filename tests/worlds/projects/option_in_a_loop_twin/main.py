# wants: mps
import torch

for _ in range(1):
    device = "cuda" if torch.cuda.is_available() else "cpu"
print("device", torch.zeros(2, device=device).device.type)
