# input: --device cuda
# input:
# never: Stream
import argparse

import torch


class Loader:
    def __init__(self, batches, device="cuda"):
        self.batches = batches
        self.device = device

    def __iter__(self):
        if self.device == "cuda":
            stream = torch.cuda.Stream()
        for x in self.batches:
            if self.device == "cuda":
                with torch.cuda.stream(stream):
                    x = x.cuda()
            else:
                x = x.to(self.device)
            yield x


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
for x in Loader([torch.zeros(2)], device=args.device):
    print("device", x.device)
