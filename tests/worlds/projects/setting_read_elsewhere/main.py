import json

import torch

config = json.loads('{"device": "cuda"}')
if config["device"] == "cuda" and not torch.cuda.device_count() > 0:
    config["device"] = "cpu"


def device():
    return torch.device(config["device"])


print("on", device())
