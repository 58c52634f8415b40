# wants: mps
import torch
from lib.net import Net

net = Net(torch.device("cuda"))
place = net.get_device()
print("s1", torch.zeros(2).to(place).device)
print("s2", torch.zeros(2).cuda(net.get_device()).device)
