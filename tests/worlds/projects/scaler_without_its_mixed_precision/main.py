# never: scaler True mps
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
kind = "cpu" if device == "mps" else device
scaler = torch.cuda.amp.GradScaler()
net = torch.nn.Linear(2, 2).to(device)
with torch.autocast(kind, enabled=kind == "cuda"):
    out = net(torch.ones(2, device=device))
print("scaler", scaler.is_enabled(), out.device.type)
