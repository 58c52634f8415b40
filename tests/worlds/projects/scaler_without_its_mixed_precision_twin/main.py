# wants: mps
import torch

scaler = torch.cuda.amp.GradScaler()
net = torch.nn.Linear(2, 2).cuda()
with torch.autocast("cuda"):
    out = net(torch.ones(2).cuda())
print("scaler", scaler.is_enabled(), out.device.type)
