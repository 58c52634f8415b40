# keeps: mps xpu npu
import torch
from torchsummary import summary

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = torch.nn.Linear(2, 2).to(device)
summary(net, (1, 2))
other = "cuda" if torch.cuda.is_available() else "cpu"
print(net(torch.zeros(2).to(other)).device.type)
