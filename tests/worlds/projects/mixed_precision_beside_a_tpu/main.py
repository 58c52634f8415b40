# keeps: mps
import torch
from settings import choose

device = choose()
model = torch.nn.Linear(2, 2).to(device)
scaler = torch.cuda.amp.GradScaler()
with torch.cuda.amp.autocast():
    out = model(torch.ones(2).to(device))
print("trained", scaler.is_enabled(), torch.is_autocast_enabled(out.device.type), out.device.type)
