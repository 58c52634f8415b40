# input: --device cuda
# input: --device cpu
# keeps: nogpu cpu mps xpu npu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
if args.device == "cuda" and not torch.cuda.is_available():
    args.device = "cpu"
print("s1", torch.zeros(1, device=torch.device(args.device)).device.type)
