import torch


def load_model(path, device='cuda'):
    net = torch.nn.Linear(1, 1).to(device)
    return net
