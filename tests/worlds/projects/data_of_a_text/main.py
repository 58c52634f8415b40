# keeps: cpu mps xpu npu
import json

import torch

config = json.loads('{"device": "cuda", "gpu": [true]}')
config["device"] = config["device"] if torch.cuda.is_available() else "cpu"
print("s1", torch.zeros(2, device=config["device"]).device)
