# wants: mps
import torch
from layers import Net

model = Net().cuda()
with torch.autocast("cuda", dtype=torch.float16):
    out = model(torch.ones(2).cuda())
    print("data", out.device.type, torch.is_autocast_enabled("cpu"))
