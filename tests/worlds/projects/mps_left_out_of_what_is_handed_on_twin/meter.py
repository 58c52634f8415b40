import torch


class Meter:
    def __init__(self, device):
        self.device = device
        self.total = torch.zeros(2).to(self.device)

    def add(self, scores):
        self.total = self.total + scores
        return self.total.clone().double()
