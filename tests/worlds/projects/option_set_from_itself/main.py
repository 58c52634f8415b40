# keeps: cpu mps xpu npu
# input: --use-cuda
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
args.use_cuda = args.use_cuda and torch.cuda.device_count() > 0
model = torch.nn.Linear(2, 2)
if args.use_cuda:
    model = model.to("cuda")
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("s1", model(x).device)
parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda", choices=["cuda", "cpu"])
others = parser.parse_args([])
if "cuda" in others.device and not torch.cuda.is_available():
    others.device = "cpu"
print("s2", torch.zeros(2, device=others.device).device)
