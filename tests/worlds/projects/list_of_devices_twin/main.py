# wants: mps
import torch

DEVICES = ["cuda" if torch.cuda.is_available() else "cpu"]
for number, name in enumerate(DEVICES):
    print(f"device{number}", torch.zeros(2, device=name).device)
