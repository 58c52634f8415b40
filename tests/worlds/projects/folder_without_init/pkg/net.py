import torch


class Net:
    def __init__(self, device):
        self.device = torch.device(device)
