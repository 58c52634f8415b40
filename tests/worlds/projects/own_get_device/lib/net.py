import torch


class Net:
    def __init__(self, place):
        self.weight = torch.zeros(2, device=place)

    def get_device(self):
        return self.weight.device
