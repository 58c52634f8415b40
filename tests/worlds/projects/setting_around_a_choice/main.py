# keeps: mps xpu npu
import json

import torch

INDEX = 0
if INDEX == 0:
    config = json.loads('{"device": "cuda"}')
    config["device"] = config["device"] if torch.cuda.is_available() else "cpu"
print("s1", torch.device(config["device"]))
