# wants: mps
import torch

use_cuda = torch.cuda.is_available()
for i in range(1):
    device = torch.device(f"cuda:{i}" if use_cuda else "cpu")
    print("device", torch.zeros(2).to(device).device)
