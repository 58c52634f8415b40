# keeps: mps xpu npu
import argparse

import torch
from mix import mixed

parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, default="cuda:0" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()
device = torch.device(args.device)
print(mixed(torch.zeros(2).to(device)).device.type)
