# wants: mps
import torch
import torch.nn as nn

net = nn.Linear(2, 2)
x = torch.zeros(2)
if torch.cuda.is_available():
    net = net.cuda()
    x = x.cuda()
loss = nn.CrossEntropyLoss().cuda()
print("s1", loss(net(x), x).device)
