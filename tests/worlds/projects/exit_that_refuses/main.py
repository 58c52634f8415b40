# refuses: mps xpu npu cpu
# input: --use-cuda
import argparse
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
if args.use_cuda and not torch.cuda.device_count() > 0:
    sys.exit("CUDA is not there")
places = ["cpu", "cuda"][int(args.use_cuda)]
print("s1", torch.ones(2).to(places).device)
