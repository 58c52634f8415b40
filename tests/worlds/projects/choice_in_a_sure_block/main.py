# wants: mps
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
device = torch.device("cpu" if parser.parse_args().cpu else "cuda")
if device.type == "cuda":
    device = torch.device("cuda:0")
if True:
    print("s1", torch.zeros(2, device=device).device)
