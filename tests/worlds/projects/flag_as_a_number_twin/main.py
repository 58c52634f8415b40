# wants: mps
# input: --use-cuda
import argparse

import torch

is_there = int(torch.cuda.is_available())
parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
args.use_cuda = args.use_cuda and is_there
print(torch.zeros(2, device="cuda" if args.use_cuda else "cpu").device.type)
