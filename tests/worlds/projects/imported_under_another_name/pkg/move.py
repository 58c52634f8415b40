import torch


def to_gpu(x, use_cuda=torch.cuda.is_available()):
    return x.to("cuda" if use_cuda else "cpu")
