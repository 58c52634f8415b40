# keeps: mps xpu npu
# keeps: cpu
import torch

from moving import maybe_to_torch, to_cuda


def run(net, data):
    data = maybe_to_torch(data)
    if torch.version.cuda and torch.cuda.is_available():
        data = to_cuda(data)
    return net(data)


net = torch.nn.Linear(2, 2)
if torch.cuda.is_available():
    net.cuda()
print("s1", run(net, [1.0, 2.0]).device)
