# wants: mps
# input:
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda", choices=["cpu", "mps", "cuda", "xpu"])
args = parser.parse_args()
if args.device == "mps" and not (hasattr(torch.backends, "mps") and torch.backends.mps.is_available()):
    raise ValueError("mps is not there")
if args.device == "cuda" and not torch.cuda.is_available():
    raise ValueError("cuda is not there")
print("s1", torch.ones(2).to(args.device).device)
