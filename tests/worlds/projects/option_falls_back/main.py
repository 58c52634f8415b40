import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda", choices=["cuda", "cpu"])
args = parser.parse_args()
if not torch.cuda.is_available():
    if args.device == "cuda":
        print("s1", "falls back")
    args.device = "cpu"
print("s2", torch.device(args.device))
