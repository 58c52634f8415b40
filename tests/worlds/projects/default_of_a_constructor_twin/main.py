# wants: mps
import torch

CUDA: str = "cuda"


class Loader:
    def __init__(self, device=CUDA):
        self.device = device

    def load(self):
        x = torch.ones(2).to(self.device)
        if self.device == CUDA:
            print("on the device", x.device.type)
        return x


print("data", Loader().load().device.type)
