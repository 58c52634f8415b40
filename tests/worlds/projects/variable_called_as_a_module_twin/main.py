# wants: mps
import torch
from pkg.lib import start

net = torch.zeros(2)
if torch.cuda.is_available():
    net = net.cuda()
print("s1", (net + start()).device)
