# keeps: cpu mps xpu npu
# input: --device cuda
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda")
args = parser.parse_args()
if args.device.startswith("cuda") and not torch.cuda.is_available():
    args.device = "cpu"
model = torch.nn.Linear(2, 2).to(args.device)
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("s1", model(x).device)
