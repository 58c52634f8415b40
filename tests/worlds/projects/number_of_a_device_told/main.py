import torch
import torchtext

device = None if torch.cuda.is_available() else -1
print("s1", torchtext.data.Iterator(device=device).place)
