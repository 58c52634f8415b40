# wants: mps
import argparse

import torch
from lib.loading import load


def main(args):
    device = torch.device("cuda:" + str(args.gpu_id))
    if args.ones:
        x = torch.ones(2).to(device=device)
    else:
        x = torch.zeros(2).to(device=device)
    print("s1", load(x, map_location=device).device)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu_id", default=0, type=int)
    parser.add_argument("--ones", action="store_true")
    main(parser.parse_args())
