import torch


class Separator:
    def __init__(self, device="cuda" if torch.cuda.is_available() else "cpu"):
        self.update(device=device)

    def update(self, device=None):
        if device is not None:
            self._device = device

    def run(self, data):
        return data.to(torch.device(self._device))
