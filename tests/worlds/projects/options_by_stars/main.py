# keeps: mps
import torch

here = "cuda:0" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
print("model", torch.nn.Linear(2, 2).to(here).weight.device.type)
print("device", torch.zeros(2, **{"device": "cuda"} if torch.cuda.device_count() > 0 else {}).device.type)
