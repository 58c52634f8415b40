import torch


class Base:
    place = "host"

    def __init__(self):
        self.weight = torch.ones(2)

    def cuda(self):
        self.weight = self.weight.cuda()
        self.place = "gpu"
        return self
