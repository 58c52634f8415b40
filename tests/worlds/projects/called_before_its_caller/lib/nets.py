import torch


class Net(torch.nn.Module):
    def __init__(self):
        self.layer = torch.nn.Linear(2, 2)
        self.mask = torch.ones(2)

    def start(self, use_cuda=False):
        if use_cuda:
            self.mask = self.mask.cuda()
        return self.layer(self.mask)
