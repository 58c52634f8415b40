# keeps: mps xpu
from config import args

import torch

net = torch.nn.Linear(3, 4)
if args.cuda:
    net.cuda()
x = torch.ones(3)
if args.cuda:
    x = x.cuda()
print(args.cuda and torch.cuda.get_device_capability(0) >= (7, 0), net(x).device.type)
