# keeps: cpu mps
# keeps: xpu npu
import torch

from meter import Meter
from net import Net

net = Net()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
meter = Meter(device)
x = torch.ones(2)
if torch.cuda.is_available() and torch.cuda.device_count() > 0:
    x = x.cuda()
print("s1", meter.add(net.run(x)).device)
