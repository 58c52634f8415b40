# wants: mps
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="fast", choices=["fast", "slow"])
args = parser.parse_args()
device = "cuda" if torch.cuda.device_count() > 0 else "cpu"
print("device", args.mode, torch.zeros(2, device=device).device.type)
