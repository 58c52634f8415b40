# wants: mps
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
index = parser.parse_args([]).gpu
first = argparse.ArgumentParser()
first.add_argument("--device", default=f"cuda:{index}" if torch.cuda.is_available() and index >= 0 else "cpu")
print(torch.zeros(2, device=first.parse_args([]).device).device.type)
