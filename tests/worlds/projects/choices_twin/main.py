# wants: mps
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()
if args.device == "cpu":
    print("this is slow")
print("model", torch.zeros(2, device=args.device).device)
