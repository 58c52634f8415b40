# wants: mps
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu-ids", type=str, default="0")
args = parser.parse_args()
args.cuda = torch.cuda.is_available()
if args.cuda:
    try:
        args.gpu_ids = [int(s) for s in args.gpu_ids.split(",")]
    except ValueError:
        raise ValueError("--gpu-ids takes numbers only")
data = torch.zeros(2)
if args.cuda:
    data = data.cuda()
print("data", data.device.type)
