import torch


class Mix(torch.nn.Module):
    def __init__(self, one, other):
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x):
        with torch.cuda.amp.autocast(enabled=torch.cuda.is_available()):
            a, b = self.one(x), self.other(x)
        assert a.device == b.device
        return a + b
