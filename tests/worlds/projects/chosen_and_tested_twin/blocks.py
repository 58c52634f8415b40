import torch


def moved(x, y):
    if x.is_cuda:
        y = y.cuda()
    if x.is_cuda:
        y = y + torch.ones(2).cuda()
    return y
