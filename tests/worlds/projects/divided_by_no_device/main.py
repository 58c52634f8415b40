# keeps: cpu
# wants: mps
import argparse

import torch


def work(args, count):
    share = args.size % count if count else args.size
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(share, torch.zeros(2, device=device).device.type)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default=7, type=int)
    work(parser.parse_args(), torch.cuda.device_count())
