# wants: mps
import torch
import torchtext

device = "cuda" if torch.cuda.is_available() else "cpu"
print("s1", torchtext.data.Iterator(device=device).place)
