import torch

ones = torch.ones
