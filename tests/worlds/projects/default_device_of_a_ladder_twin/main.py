# wants: mps
import torch

chosen = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_default_device(chosen)
print("on", torch.zeros(2).device)
