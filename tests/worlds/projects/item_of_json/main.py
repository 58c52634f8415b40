import json

import acme_engine
import torch

config = json.loads('{"device": "cuda"}')
config["device"] = config["device"] if torch.cuda.is_available() else "cpu"
print("on", acme_engine.run(**{"device": config["device"]}))
