import json

import torch

settings = json.loads('{"device": "cuda"}')
if not torch.cuda.is_available():
    settings.update(device="cpu")
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("data", x.to(settings["device"]).device)
