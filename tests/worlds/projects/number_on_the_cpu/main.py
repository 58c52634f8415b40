# keeps: cpu
import torch

kind = "cuda" if torch.cuda.is_available() else "cpu"
where = kind + ":0"
tried = where
try:
    torch.cuda.get_device_properties(0)
except (AssertionError, RuntimeError):
    tried = "cpu"
print("tried", torch.device(tried))
