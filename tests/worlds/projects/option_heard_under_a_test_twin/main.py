# wants: mps
# input:
# input: --device cuda:0
import argparse

import torch


def settings():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default=None, type=str)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    if not args.cpu and torch.cuda.is_available():
        if args.device is not None:
            print("given")
            device = args.device
        else:
            device = "cuda:0"
    else:
        device = "cpu"
    args.device = device
    return args


args = settings()
model = torch.nn.Linear(2, 2).to(args.device)
print("model", model(torch.ones(2).to(args.device)).device.type)
