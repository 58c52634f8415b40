import torch


def on_gpu(function):
    def inner(*args):
        return function("cuda" if torch.cuda.is_available() else "cpu", *args)

    return inner
