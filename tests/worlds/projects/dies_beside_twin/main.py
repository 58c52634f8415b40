# wants: mps
import os

import torch


class Transform:
    def __init__(self):
        self.basis = torch.ones(2)

    def transform(self, data):
        data = data.cuda() + self.basis.cuda()
        print("s1", data.device)
        return data.cpu()

    def inverse(self, magnitude):
        total = torch.from_numpy([1.0, 1.0])
        total = total.cuda() if magnitude.is_cuda else total
        return magnitude - total


def restored(data, transform):
    return transform.inverse(transform.transform(data) + data)


step = globals()[os.environ.get("STEP", "restored")]
print("s2", step(torch.zeros(2), Transform()).device)
