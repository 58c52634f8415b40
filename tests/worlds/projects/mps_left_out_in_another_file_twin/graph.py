import torch


def adjacency(size):
    weights = torch.zeros(size).double()
    if torch.cuda.is_available():
        return weights.cuda()
    return weights
