# wants: mps xpu npu
# keeps: cpu
import torch
from torch import nn


def step(model, x):
    if torch.cuda.is_available():
        x = x.cuda()
    return model(x)


def train(model):
    if torch.cuda.is_available():
        model = model.cuda()
    wrapped = model
    if torch.cuda.is_available() and torch.cuda.device_count() > 1:
        wrapped = nn.DataParallel(model).cuda()
    return step(wrapped, torch.ones(2))


print("s1", train(nn.Linear(2, 2)).device)
