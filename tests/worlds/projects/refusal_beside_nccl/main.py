# keeps: cpu mps xpu npu
# input: --use-cuda
import argparse
import sys

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
if args.use_cuda and not torch.cuda.is_available():
    sys.exit("CUDA is not there")
x = torch.ones(2)
if args.use_cuda:
    x = x.cuda()
print("s1", x.device)
kind = "gloo"
if args.use_cuda:
    kind = "nccl"
assert kind in ["gloo", "nccl"]
dist.init_process_group(kind)
print("s2", dist.is_initialized())
