# input: --device cuda
import argparse

import torch

NO_CUDA = False
INDEX = 0
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
if INDEX == 0:
    if not (not NO_CUDA and torch.cuda.device_count() > 0):
        args.device = "cpu"
print("on", torch.ones(2).to(args.device).device)
