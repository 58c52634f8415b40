# keeps: mps
import torch
from layers import Net

if torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
with torch.autocast("cuda", dtype=torch.float16):
    out = model(torch.ones(2, device=device))
    print("data", out.device.type, torch.is_autocast_enabled(device.type))
