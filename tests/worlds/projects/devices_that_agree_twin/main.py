# wants: mps xpu npu
import argparse

import torch
from mix import Mix

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda:0")
args = parser.parse_args()
device = torch.device(args.device)
net = Mix(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).to(device)
print(net(torch.zeros(2, 2).to(device)).device.type)
