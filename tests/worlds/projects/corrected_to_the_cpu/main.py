# keeps: mps xpu npu
# input: --device cuda
# input:
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
if not torch.cuda.is_available():
    args.device = "cpu"
print(torch.nn.Linear(2, 2).to(args.device)(torch.zeros(1, 2, device=args.device)).device.type)
