# wants: mps
import torch


class Detector:
    def __init__(self, device, verbose):
        if "cpu" not in device and "cuda" not in device:
            raise ValueError(device)


class Sfd(Detector):
    def __init__(self, device, verbose=False):
        super().__init__(device, verbose)
        self.device = device


device = "cuda" if torch.cuda.is_available() else "cpu"
print("s1", torch.zeros(2).to(Sfd(device).device).device)
