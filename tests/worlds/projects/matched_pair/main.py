import torch

match (torch.cuda.is_available(), torch.backends.mps.is_available()):
    case (True, _):
        device = "cuda"
    case (_, True):
        device = "mps"
    case _:
        device = "cpu"
print("s1", {"cuda": 1, "cpu": 2, "mps": 3, "xpu": 4}[device] > 0)
print("s2", torch.zeros(2, device=device).device)
