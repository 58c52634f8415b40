import torch
from torch.nn.parallel import gather, replicate
from torch.nn.parallel.scatter_gather import scatter_kwargs


class Parallel(torch.nn.Module):
    def __init__(self, module, device_ids=None):
        super().__init__()
        self.module = module
        if not torch.cuda.is_available():
            self.device_ids = []
            return
        self.device_ids = device_ids or list(range(torch.cuda.device_count()))
        self.module.cuda(self.device_ids[0])

    def forward(self, x):
        if not self.device_ids:
            return self.module(x)
        given, named = scatter_kwargs((x.cuda(),), {}, self.device_ids)
        copies = replicate(self.module, self.device_ids)
        return gather([copy(*each) for copy, each in zip(copies, given)], self.device_ids[0])
