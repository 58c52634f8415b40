# wants: mps xpu npu
import argparse

import torch
from models import load_model


class Vocoder:
    def __init__(self, path, device=None):
        if device is None:
            device = 'cuda' if torch.cuda.is_available() else 'cpu'
        self.device = device
        self.net = load_model(path, device=device)


parser = argparse.ArgumentParser()
parser.add_argument("--device")
args = parser.parse_args()
x = torch.zeros(1, device=Vocoder("x", args.device).device)
print(Vocoder("x", args.device).net(x).device.type)
