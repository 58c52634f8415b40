import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true", default=False)
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
x = torch.zeros(2)
x = getattr(x, "cuda" if torch.cuda.device_count() > 0 else "cpu")()
print("data", x.device, args.cuda)
