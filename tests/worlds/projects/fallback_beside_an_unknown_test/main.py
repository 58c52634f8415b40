# keeps: mps xpu npu cpu nogpu
# input: --device cuda
import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
if len(os.sep) == 1 and args.device == "cuda" and not torch.cuda.device_count() > 0:
    args.device = "cpu"
print(torch.ones(2).to(args.device).device)
