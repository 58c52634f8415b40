# wants: mps
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("data", torch.zeros(2, device=device).device)
if torch.cuda.is_available():
    print("bytes", torch.cuda.memory_allocated() >= 0)
