import json

import torch

config = json.loads('{"device": "cuda"}')
if not torch.cuda.is_available():
    config["device"] = "cpu"
model = torch.nn.Linear(2, 2).to(config["device"])
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("data", model(x).device)
