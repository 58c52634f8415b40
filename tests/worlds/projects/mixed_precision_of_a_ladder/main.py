# keeps: mps
import torch

if torch.cuda.is_available():
    device = torch.device("cuda")
elif torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")
model = torch.nn.Linear(2, 2).to(device)
scaler = torch.cuda.amp.GradScaler()
print("scaler", scaler.is_enabled())
with torch.autocast("cuda", dtype=torch.float16):
    out = model(torch.ones(2, device=device))
    print("new", out.device.type, torch.is_autocast_enabled(device.type))
with torch.cuda.amp.autocast():
    out = model(torch.ones(2, device=device))
    print("old", out.device.type, torch.is_autocast_enabled(device.type))


@torch.cuda.amp.autocast()
def step(x):
    return torch.is_autocast_enabled(x.device.type)


print("step", step(torch.ones(2, device=device)))
