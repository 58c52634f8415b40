# wants: mps
import torch


def like(x):
    y = torch.zeros(2)
    if x.type() == "torch.cuda.FloatTensor":
        y = y.cuda()
    if x.type() == "torch.cuda.HalfTensor":
        print("half")
    return y


x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print((like(x) + x).device)
