import torch


def get_backend():
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        return torch.zeros(2).cuda().device
    return "cpu"
