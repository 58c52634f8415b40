# wants: mps
from logging import NOTSET

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
scaler = torch.amp.GradScaler("cuda") if NOTSET else torch.cuda.amp.GradScaler()
print("scaler", scaler.is_enabled(), torch.nn.Linear(2, 2).to(device)(torch.ones(2, device=device)).device.type)
