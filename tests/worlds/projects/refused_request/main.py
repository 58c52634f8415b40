# refuses: cpu nogpu
# input: --device 0
import argparse

import torch


def select_device(device=""):
    cpu = device == "cpu"
    if device and not cpu:
        assert torch.cuda.is_available(), f"CUDA unavailable, invalid device {device} requested"
    return torch.device("cuda:0" if not cpu and torch.cuda.is_available() else "cpu")


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="")
args = parser.parse_args()
print("device", select_device(args.device))
