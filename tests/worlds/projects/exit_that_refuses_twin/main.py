# wants: mps xpu npu
# refuses: cpu
# input: --use-cuda
import argparse
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
if args.use_cuda and not torch.cuda.device_count() > 0:
    sys.exit("CUDA is not there")
place = "cuda" if args.use_cuda else "cpu"
print("s1", torch.ones(2).to(place).device)
