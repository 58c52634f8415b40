# refuses: cpu nogpu mps xpu npu
# input: --gpu 1
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
if args.gpu >= torch.cuda.device_count():
    raise SystemExit(f"there is no GPU {args.gpu}")
torch.cuda.set_device(args.gpu)
print("device", torch.zeros(2).cuda().device)
