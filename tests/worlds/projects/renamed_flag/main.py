import torch
from settings.env import HAS_CUDA as GPU


def place():
    if GPU:
        return "cuda"
    return "cpu"


print("data", torch.zeros(2, device=place()).device)
