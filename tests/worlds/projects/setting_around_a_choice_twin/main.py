# wants: mps
import json

import torch

INDEX = 0
if INDEX == 0:
    config = json.loads('{"device": "cuda"}')
    config["device"] = "cuda" if torch.cuda.is_available() else "cpu"
print("s1", torch.device(config["device"]))
