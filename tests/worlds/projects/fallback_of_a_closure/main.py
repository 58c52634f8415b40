# keeps: cpu mps xpu npu
# The object reads the option where its class is made, and the fallback on the CPU build stays.
import argparse

import torch

from where import Base

parser = argparse.ArgumentParser()


def main():
    NO_CUDA = False
    Tensor = torch.cuda.FloatTensor if not NO_CUDA and torch.cuda.is_available() else torch.FloatTensor
    print("tensor", Tensor(2).device)
    parser.add_argument("--device", type=str, default="cuda")
    args = parser.parse_args()
    if args.device.startswith("cuda") and not (not NO_CUDA and torch.cuda.is_available()):
        args.device = "cpu"

    for _ in range(1):

        class Child(Base):
            def __init__(self):
                self.device = args.device

    def train(device="cuda"):
        if not torch.cuda.is_available() and torch.device(device).type == "cuda":
            return "cpu"
        return device

    print("child", torch.zeros(2).to(Child().where()).device)
    print("train", torch.ones(2).to(train()).device)


if __name__ == "__main__":
    main()
