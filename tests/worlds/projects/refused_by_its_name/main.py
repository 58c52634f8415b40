# keeps: cpu nogpu
# input: --device cuda
import argparse

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cpu")
    args = parser.parse_args()
    if args.device == "cuda":
        print("s1", torch.device("cuda"))
    elif args.device == "cpu":
        pass
    else:
        raise ValueError("Invalid device: " + args.device)
    use_cuda = torch.cuda.is_available()
    x = torch.zeros(2, device="cuda" if use_cuda else "mps" if torch.backends.mps.is_available() else "cpu")
    print("s2", torch.zeros(2, device="cuda" if x.get_device() >= 0 else "cpu").device)


main()
