# input: cpu
# input: cuda
import sys

import torch

CUDA: str = "cuda"
CPU: str = "cpu"


class Loader:
    def __init__(self, device=CUDA):
        self.device = device

    def load(self):
        x = torch.ones(2)
        if self.device == CUDA:
            print("half")
            x = x.to(self.device).half()
        return x


print("data", Loader(CPU if sys.argv[1] == "cpu" else CUDA).load().dtype)
