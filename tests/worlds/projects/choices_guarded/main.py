import argparse

import torch


def load(device):
    if device == "cuda":
        kind = "half"
    elif device == "cpu":
        kind = "full"
    else:
        raise ValueError(f"Invalid device: {device}")
    return torch.zeros(2, device=device), kind


parser = argparse.ArgumentParser()
parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()
print("model", load(args.device)[0].device)
