# input:
# wants: mps
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
model = torch.nn.Linear(2, 2).to(args.device)
x = torch.ones(2).to(args.device)
if torch.cuda.is_available():
    torch.cuda.empty_cache()
print("x", model(x).device.type)
