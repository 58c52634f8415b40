import torch


def is_cuda_available():
    return torch.cuda.is_available()


def is_mps_available():
    return torch.backends.mps.is_available()


def is_xpu_available():
    return hasattr(torch, "xpu") and torch.xpu.is_available()
