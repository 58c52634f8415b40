import torch


class Labels:
    def batch(self, metas, device):
        return torch.ones(2).to(device)


class NoLabels:
    def batch(self, metas, name):
        print("s0", "named", name)
        return torch.zeros(2, device=name)
