import torch


def target():
    found = torch.zeros(2)
    if torch.cuda.is_available():
        found = found.cuda()
    return found
