# wants: mps
import json

import torch

INDEX = 0
print("choice", torch.device("cuda" if torch.cuda.is_available() else "cpu").type)
if INDEX == 0:
    config = json.loads('{"mode": "fast"}')
    if not torch.cuda.is_available():
        config["mode"] = "slow"
print("mode", config["mode"])
