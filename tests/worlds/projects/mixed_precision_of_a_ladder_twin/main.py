# wants: mps
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(2, 2).to(device)
scaler = torch.cuda.amp.GradScaler()
print("scaler", scaler.is_enabled())
with torch.autocast("cuda", dtype=torch.float16):
    out = model(torch.ones(2, device=device))
    print("new", out.device.type, torch.is_autocast_enabled("cpu"))
with torch.cuda.amp.autocast():
    out = model(torch.ones(2, device=device))
    print("old", out.device.type, torch.is_autocast_enabled("cpu"))
