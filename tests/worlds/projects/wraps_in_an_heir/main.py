# wants: mps xpu npu cpu
import torch
import torch.nn as nn
from train import train

net = nn.Linear(1, 1)
if torch.cuda.is_available():
    net.to(0)
train(net, [torch.zeros(1)])
