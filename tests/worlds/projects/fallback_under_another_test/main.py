# input: --device cuda
# input: --device cpu
import argparse
from dataclasses import dataclass

import torch

INDEX = 0


@dataclass
class Settings:
    gpu: bool = torch.cuda.is_available()


parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda", choices=["cuda", "cpu"])
args = parser.parse_args()
if INDEX == 0:
    if not torch.cuda.is_available():
        args.device = "cpu"
print("s1", torch.zeros(2, device=args.device).device)
