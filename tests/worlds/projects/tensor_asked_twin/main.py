# wants: mps xpu npu
import argparse
import copy
import json

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-gpu", action="store_true", default=True)
parser.add_argument("--kind", default="sum")
parser.add_argument("--how", default="copy")
args = parser.parse_args()

use_gpu = args.use_gpu and torch.cuda.is_available()
if use_gpu:
    device = torch.device("cuda", 0)
else:
    device = torch.device("cpu")
found = json.loads("[1]") if use_gpu else json.loads("[2]")
z = torch.ones(2).to(device) if args.kind == "sum" else found
if z.is_cuda:
    torch.cuda.synchronize()
z = getattr(copy, args.how)(z)
print("s1", z.device.type)
