# wants: mps
import argparse

import torch

from metrics import accuracy

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
model = torch.nn.Linear(2, 2)
x = torch.ones(2)
if args.cuda:
    model.cuda()
    x = x.cuda()
print("s1", model(x).device)
if args.cuda:
    print("s2", accuracy(model(x), x).device)
