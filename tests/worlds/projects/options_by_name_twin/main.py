# wants: mps
# input: --size small
import argparse

import torch

def work(device, size):
    print("s1", torch.ones(2).to(device).device)

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--size", default="large")
args = parser.parse_args().__dict__
size: str = args.pop("size")
work(**args, size=size)
