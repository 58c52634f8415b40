import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Linear(1, 1)

    def is_cuda(self):
        return self.core.weight.is_cuda

    def encode(self, batch):
        if self.is_cuda():
            batch = batch.cuda()
        return self.core(batch)
