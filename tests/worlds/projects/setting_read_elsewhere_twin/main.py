# wants: mps
import torch

config = {"device": "cpu"}
if torch.cuda.device_count() > 0:
    config["device"] = "cuda"


def device():
    return torch.device(config["device"])


print("on", device())
