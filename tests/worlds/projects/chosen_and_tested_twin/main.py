# wants: mps
import contextlib

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


print("s1", Service().serve(torch.ones(2)).device)
