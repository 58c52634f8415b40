# input:
# input: --device cpu
# keeps: cpu mps xpu npu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
weight = torch.ones(2)
if torch.cuda.is_available():
    weight = weight.cuda()
x = torch.ones(2).to(args.device)
print("weight", weight.device.type, "x", x.device.type)
