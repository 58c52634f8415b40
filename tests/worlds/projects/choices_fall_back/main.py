# input: --device cuda
# input: --device cpu
# keeps: mps xpu npu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
args = parser.parse_args()
args.device = args.device if torch.cuda.device_count() > 0 else "cpu"
print("device", torch.zeros(2, device=args.device).device.type)
