# input: --device cuda
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
for _ in range(1):
    args.device = args.device if torch.cuda.is_available() else "cpu"
print("device", torch.zeros(2, device=args.device).device.type)
