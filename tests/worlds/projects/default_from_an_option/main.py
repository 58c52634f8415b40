# input: --use-cuda
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
args.use_cuda = args.use_cuda and torch.cuda.is_available()


def run(device="cuda" if args.use_cuda else "cpu"):
    return device


print("s1", torch.zeros(2, device=run()).device)
