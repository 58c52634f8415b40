# wants: mps
# input: --gpus 1
import argparse
import os

import torch
from loss import target

parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, default=1)
args = parser.parse_args()
if args.gpus == 0:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
model = torch.nn.Linear(2, 2)
if args.gpus > 0:
    model = model.cuda()
x = torch.ones(2).to(next(model.parameters()).device)
print("s1", model(x).device)
print("s2", target().device)
