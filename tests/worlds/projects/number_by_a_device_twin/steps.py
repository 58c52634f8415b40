import torch


def train(device_id):
    n_gpu = 1 if device_id >= 0 else 0
    if n_gpu > 0:
        print("s2", torch.ones(2).cuda().device.type)
