# wants: mps
# input: --use-cuda
import argparse
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
if args.use_cuda and not torch.cuda.is_available():
    sys.exit("CUDA is not there")
print("s1", torch.ones(2).to("cuda" if args.use_cuda else "cpu").device)
