# never: Invalid device
# input:
# input: --device cpu
import argparse

import torch


def load(device):
    if device == "cuda":
        options = {"device_map": "auto"}
    elif device == "cpu":
        options = {}
    else:
        raise ValueError(f"Invalid device: {device}")
    return torch.zeros(2, device=device), options


parser = argparse.ArgumentParser()
parser.add_argument("--device", type=str, choices=["cuda", "cpu"], default="cuda")
args = parser.parse_args()
print("model", load(args.device)[0].device)
