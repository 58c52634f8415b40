# keeps: mps
import torch

device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
model = torch.nn.Linear(2, 2).to(device)
with torch.autocast("cuda", enabled=False):
    out = model(torch.ones(2, device=device))
    print("off", out.device.type, torch.is_autocast_enabled(device))
