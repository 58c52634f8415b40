import torch

try:
    torch.cuda.current_device()
    tried = "cuda"
except (RuntimeError, AssertionError):
    tried = "cpu"
print("data", torch.ones(2).to(tried).device)
