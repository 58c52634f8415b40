# input: cuda
# input: cuda:0
# input: cpu
import sys

import torch

device = torch.device(sys.argv[1])
if "cuda" in str(device) and not torch.cuda.is_available():
    device = torch.device("cpu")
print("device", torch.zeros(2).to(device).device)
