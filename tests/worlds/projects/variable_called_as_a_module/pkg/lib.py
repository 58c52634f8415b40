import torch


class Loss:
    def __init__(self, inner):
        self.inner = inner

    def cuda(self):
        self.inner = self.inner.cuda()
        return self


def start():
    x = torch.zeros(2)
    if torch.cuda.is_available():
        x = x.cuda()
    return x
