# wants: mps
import torch

device = torch.device("cuda")
print(device)
print(torch.ones(2, device=device).device.type)
