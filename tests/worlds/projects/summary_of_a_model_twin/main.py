# wants: mps
import torch
from torchsummary import summary

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = torch.nn.Linear(2, 2)
summary(net, (1, 2), device="cpu")
net = net.to(device)
print(net(torch.zeros(2).to(device)).device.type)
