# keeps: mps xpu npu
# input: --device cpu
# input: --device cuda
# input:
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda")
args = parser.parse_args()
if not torch.cuda.device_count() > 0:
    if args.device == "cuda":
        print("falls back")
    args.device = "cpu"


def maker():
    device = args.device

    def inner():
        return device

    return inner


print("device", torch.ones(2).to(maker()()).device)
