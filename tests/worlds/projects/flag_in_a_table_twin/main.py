# wants: mps
from config import args

import torch

net = torch.nn.Linear(3, 4)
if args.cuda:
    net.cuda()
x = torch.ones(3)
if args.cuda:
    x = x.cuda()
print(net(x).device.type)
