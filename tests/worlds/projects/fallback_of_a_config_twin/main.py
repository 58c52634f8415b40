# wants: mps
import json

import torch

config = json.loads('{"device": "cuda"}')
if config["device"] == "cuda" and not torch.cuda.is_available():
    config.update(device="cpu")
print("s0", config["device"])
model = torch.nn.Linear(2, 2)
x = torch.ones(2)
if torch.cuda.is_available():
    model, x = model.cuda(), x.cuda()
print("s1", model(x).device)
