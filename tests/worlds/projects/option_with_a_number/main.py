# keeps: mps xpu npu
# input: --gpu cpu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", default="0")
args = parser.parse_args()
name = "cpu" if args.gpu == "cpu" else f"cuda:{args.gpu}"
device = torch.device(name if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(2, 2).to(device)
if device.type != "cpu":
    torch.cuda.synchronize(device)
print("s1", model(torch.ones(2).to(device)).device)
