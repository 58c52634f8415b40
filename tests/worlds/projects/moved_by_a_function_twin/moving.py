import torch


def move(x):
    return x.cuda()


def prepare(x: torch.Tensor, on_cuda=True):
    if on_cuda:
        x = move(x)
    return x


class Runner:
    def __init__(self, device):
        self.device = device

    @property
    def on_cuda(self):
        return self.device.type == "cuda"

    def run(self, x):
        if self.on_cuda:
            x = move(x)
        return x
