# wants: mps
# input: -gpus 0
import argparse

import torch
from steps import train

parser = argparse.ArgumentParser()
parser.add_argument("-gpus", default="-1", type=str)
args = parser.parse_args()
device = "cpu" if args.gpus == "-1" else "cuda"
device_id = 0 if device == "cuda" else -1
print("s1", torch.ones(2).to(device).device.type)
train(device_id)
