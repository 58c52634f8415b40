# wants: mps
import json

import torch

config = json.loads('{"device": null, "gpu": [true]}')
config["device"] = "cuda" if torch.cuda.is_available() else "cpu"
print("s1", torch.zeros(2, device=config["device"]).device)
