import torch


def ours():
    if torch.cuda.is_available():
        return torch.device("cuda:0")
    elif torch.backends.mps.is_available():
        return torch.device("cpu")
    return torch.device("cpu")


def mixed(x):
    y = torch.ones(2).to(ours())
    assert x.device == y.device
    return x + y
