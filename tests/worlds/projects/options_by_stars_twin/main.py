# wants: mps
import torch

print("device", torch.zeros(2, **{"device": "cuda"} if torch.cuda.device_count() > 0 else {}).device.type)
