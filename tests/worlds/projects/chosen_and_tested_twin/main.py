# wants: mps
import contextlib
import sys

import blocks
import torch


class Service:
    def __init__(self):
        if torch.cuda.is_available():
            device = torch.device("cuda")
        else:
            device = torch.device("cpu")
        self.device = device
        self.model = torch.nn.Linear(2, 2).to(device)

    def precision(self):
        if self.device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def serve(self, x):
        with self.precision():
            return self.model(x.to(self.device))


found = Service().serve(torch.ones(2))
print("s1", found.device)
print("s2", getattr(blocks, "moved" + sys.argv[0][:0])(found, torch.ones(2)).device)
