# wants: mps
import torch

prefer_gpu = True
fast = torch.cuda.device_count() > 0 and prefer_gpu
print("device", torch.device("cuda" if fast else "cpu"))
