# wants: xpu
# input:
import argparse

import torch

def checked(device):
    if not device.startswith("cuda") and device != "cpu":
        raise ValueError(device)
    return device


own = "cuda" if torch.cuda.is_available() else "xpu" if torch.xpu.is_available() else "cpu"
print("own", torch.device(checked(own)))
parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()
device = torch.device("cpu" if args.cpu else "cuda")
if "cuda" in str(device):
    print("here", torch.zeros(2).to(device).device.type)
print("data", torch.zeros(2, device=device).device.type)
