import torch
def to_gpu4(x):
    return x.cuda() if torch.cuda.is_available() else x
