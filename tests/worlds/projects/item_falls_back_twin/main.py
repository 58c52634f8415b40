# wants: mps
import json

import torch

config = json.loads('{"size": 2}')
model = torch.nn.Linear(config["size"], 2)
x = torch.ones(2)
if torch.cuda.is_available():
    model, x = model.cuda(), x.cuda()
print("data", model(x).device)
