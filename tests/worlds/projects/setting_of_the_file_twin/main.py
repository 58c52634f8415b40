# wants: mps
import torch

NO_CUDA = False
device = "cpu"
if not NO_CUDA and torch.cuda.device_count() > 0:
    device = "cuda"
print("on", torch.ones(2).to(device).device)
