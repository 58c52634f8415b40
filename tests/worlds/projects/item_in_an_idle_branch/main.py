import json

import torch

INDEX = 0
print("choice", torch.device("cuda" if torch.cuda.is_available() else "cpu").type)
if INDEX == 0:
    config = json.loads('{"device": "cuda"}')
    if not torch.cuda.is_available():
        config["device"] = "cpu"
print("device", torch.zeros(2, device=config["device"]).device)
