# wants: mps
import torch

count = torch.cuda.device_count()
print(torch.zeros(2, device="cuda" if count else "cpu").device.type)
