# wants: mps
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=None)
args = parser.parse_args()


def train(model, device=None):
    if device is None:
        device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    print("train", model(torch.ones(2).to(device)).device.type)


def work(gpu, count, args):
    args.gpu = gpu
    model = torch.nn.Linear(2, 2)
    if args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
    else:
        model = model.cuda()
    train(model, device=args.gpu)


count = torch.cuda.device_count()
if count == 1:
    args.gpu = 0
work(args.gpu, count, args)
