# keeps: cpu
import torch


def place(x, device):
    return x.to(device) if device != "cpu" else x


device = "cuda" if torch.cuda.is_available() else "cpu"
z = place(torch.ones(2), device)
if z.is_cuda and torch.cuda.get_device_capability() >= (8, 0):
    print("s2", "fast")
print("s1", z.device.type, torch.version.cuda is not None and z.is_cuda)
