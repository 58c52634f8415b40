# wants: mps xpu npu
import torch
from moving import Runner, prepare


def move(x):
    return x.cuda()


def ready(x, on_cuda):
    if on_cuda:
        x = move(x)
    return x


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = torch.nn.Linear(2, 2).to(device)
x = torch.zeros(1, 2)
if device.type == "cuda":
    x = move(x)
print(net(x).device.type, net(ready(torch.zeros(1, 2), device.type == "cuda")).device.type)
print(net(prepare(torch.zeros(1, 2), on_cuda=device.type == "cuda")).device.type)
print(net(Runner(device).run(torch.zeros(1, 2))).device.type)
