# wants: mps
import torch

settings = {"device": "cpu"}
if torch.cuda.is_available():
    settings.update(device="cuda")
print("data", torch.ones(2).to(settings["device"]).device)
