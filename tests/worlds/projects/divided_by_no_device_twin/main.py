# wants: mps
import argparse

import torch


def work(args, count):
    first = "yes"
    if args.rank % count != 0:
        first = "no"
    model = torch.nn.Linear(2, 2)
    if not torch.cuda.is_available():
        raise RuntimeError("only GPU training is supported")
    torch.cuda.set_device(args.gpu)
    model = model.cuda(args.gpu)
    print(first, next(model.parameters()).device.type)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", default=0, type=int)
    parser.add_argument("--gpu", default=0, type=int)
    work(parser.parse_args(), torch.cuda.device_count())
