import torch


def resolve_device(device):
    device = str(device)
    if device == "cuda" and torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    return device


def best():
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
