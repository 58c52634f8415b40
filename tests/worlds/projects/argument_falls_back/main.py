# input: --device cuda
# input: --device cpu
# input:
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
if args.device == "cuda" and not torch.cuda.is_available():
    args.device = "cpu"
device = torch.device(args.device)
print("device", torch.zeros(2).to(device).device)
