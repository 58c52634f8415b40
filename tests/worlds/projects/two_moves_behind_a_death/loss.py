import torch


class Loss:
    def __call__(self, x, targets):
        for target in targets:
            if target:
                ones = torch.ones(2).cuda()
                twos = torch.full((2,), 2).cuda()
                x = ones + twos + x
        return x
