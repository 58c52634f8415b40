# wants: mps
import os

import torch


class Inverse:
    def forward(self, z):
        weight = torch.ones(2)
        if z.type() == "torch.cuda.FloatTensor":
            weight = weight.half()
        return z + weight.to(z.device)


class Flow:
    def __init__(self):
        self.inverse = Inverse()

    def infer(self, spect):
        if spect.type() == "torch.cuda.FloatTensor":
            audio = torch.cuda.FloatTensor(2, 3)
        else:
            audio = torch.cuda.FloatTensor(2, 2)
        return self.inverse.forward(audio)


print("s1", Flow().infer(torch.zeros(2)).device)
