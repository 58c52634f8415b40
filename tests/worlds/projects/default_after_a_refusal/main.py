# refuses: mps
# input: --use-cuda
import argparse
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
if args.use_cuda and not torch.cuda.device_count() > 0:
    sys.exit("CUDA is not there")
choose = lambda where="cuda" if args.use_cuda else "mps" if torch.backends.mps.is_available() else "cpu": where
print("data", torch.ones(2).to(choose()).device)
