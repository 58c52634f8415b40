# wants: mps
import argparse

import torch


def settings():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default=None, type=str)
    args = parser.parse_args()
    if args.device is None:
        if torch.cuda.is_available():
            device = "cuda:0"
        else:
            device = "cpu"
        args.device = device
    return args


args = settings()
model = torch.nn.Linear(2, 2).to(args.device)
print("model", model(torch.ones(2).to(args.device)).device.type)
