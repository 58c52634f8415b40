# wants: mps
import sys

import torch
from net import Net

device = "cuda" if torch.cuda.is_available() else "cpu"
net = Net()
if len(sys.argv) > 1:
    net.use_kernels()
print(torch.zeros(2).to(device).device)
