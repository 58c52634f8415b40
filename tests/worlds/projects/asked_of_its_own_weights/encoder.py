import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Linear(1, 1)

    def is_cuda(self):
        return self.core.weight.is_cuda

    def is_mps(self):
        return self.core.weight.device.type == "mps"

    def encode(self, batch):
        if self.is_cuda():
            batch = batch.cuda()
        elif self.is_mps():
            batch = batch.to("mps")
        return self.core(batch)
