# keeps: cpu mps xpu npu
import json

import torch

config = json.loads('{"device": "cuda"}')
if config["device"] == "cuda" and not torch.cuda.is_available():
    config.update(device="cpu")
model = torch.nn.Linear(2, 2).to(config["device"])
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("s1", model(x).device)
