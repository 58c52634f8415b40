# keeps: nogpu cpu mps xpu npu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--half", default="yes")
args = parser.parse_args()
if args.device == "cuda" and not torch.cuda.is_available():
    args.device = "cpu"
    args.half = "no"
print("s1", args.half, torch.zeros(1, device=torch.device(args.device)).device.type)
