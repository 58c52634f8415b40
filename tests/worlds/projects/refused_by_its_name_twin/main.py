# wants: mps
import argparse

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.device == "other":
        raise ValueError("Invalid device: " + args.device)
    print("s1", torch.zeros(2, device=args.device).device)


main()
