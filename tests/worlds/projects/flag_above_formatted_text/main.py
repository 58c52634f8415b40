# env: SUFFIX=:0
import os

import torch

use_cuda = torch.cuda.is_available()
suffix = os.environ.get("SUFFIX", "")
device = torch.device(f"cuda{suffix}" if use_cuda else "cpu")
print("device", device)
print("data", torch.zeros(2).to(device).device)
