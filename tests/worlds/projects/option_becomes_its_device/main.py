# wants: mps
import argparse
import os

import torch


class Options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()

    def parse(self):
        self.parser.add_argument("--device", type=int, default=0, help="0 cuda, -1 cpu")
        self.parser.add_argument("--device_ids", type=int, nargs="+", default=[0])
        opt = self.parser.parse_args()
        opt.device = torch.device("cuda:%d" % opt.device_ids[0] if opt.device >= 0 else "cpu")
        return opt


def train(model, opt):
    if opt.device.type == "cuda":
        model.to(opt.device)
    for _ in range(int(os.environ.get("STEPS", 1))):
        print(model(torch.ones(3).to(opt.device)).device.type)


if __name__ == "__main__":
    train(torch.nn.Linear(3, 4), Options().parse())
