import torch


def step(x):
    with torch.cuda.amp.autocast():
        print("s1", "half", torch.is_autocast_enabled(x.device.type), x.device)
