# keeps: mps xpu npu
import torch

KNOWN = {"cpu": 1, "cuda": 2}


class Detector:
    def __init__(self, device, verbose):
        self.speed = KNOWN[device]
        if device not in KNOWN.keys():
            raise ValueError(device)


class Sfd(Detector):
    def __init__(self, device, verbose=False):
        Detector.__init__(self, device, verbose)
        self.device = device


device = "cuda" if torch.cuda.is_available() else "cpu"
print("s1", torch.zeros(2).to(Sfd(device).device).device)
