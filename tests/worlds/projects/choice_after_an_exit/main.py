# wants: mps
import argparse
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
if args.use_cuda and not torch.cuda.device_count() > 0:
    sys.exit("CUDA is not there")
device = torch.device("cpu" if args.cpu else "cuda")
if "cuda" in str(device):
    print("s1", "told")
print("s2", torch.zeros(2, device=device).device.type)
