# wants: mps
import torch
from layer import decode

x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("decoded", decode(x, [1.0, 2.0]).device)
