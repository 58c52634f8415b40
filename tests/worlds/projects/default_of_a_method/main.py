# input: cpu
# input: cuda
import sys

import torch

CUDA = "cuda"


class Loader:
    def load(self, device=CUDA):
        x = torch.ones(2)
        if device == CUDA:
            print("half")
            x = x.to(device).half()
        return x


loader = Loader()
x = loader.load("cpu") if sys.argv[1] == "cpu" else loader.load()
print("data", x.dtype)
