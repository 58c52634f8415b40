# wants: mps
import torch

CUDA = "cuda"


class Loader:
    def load(self, device=CUDA):
        x = torch.ones(2).to(device)
        if device == CUDA:
            print("on the device", x.device.type)
        return x


loader = Loader()
x = loader.load()
print("data", x.device.type)
