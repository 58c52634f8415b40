# keeps: mps xpu npu
import torch
import torch.nn as nn

net = nn.Linear(2, 2)
if torch.cuda.is_available():
    net = net.cuda()
loss = nn.CrossEntropyLoss().cuda()
x = torch.zeros(2)
major = torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 0
if major >= 7:
    x = x.cuda()
print("s1", loss(net(x), x).device)
