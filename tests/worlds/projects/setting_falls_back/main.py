import json

import torch

config = json.loads('{"device": "cuda"}')
if config["device"] == "cuda" and not torch.cuda.is_available():
    config.update(device="cpu")
print("s1", torch.device(config["device"]))
