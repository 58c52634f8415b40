# wants: mps xpu npu
import torch


def ready(x, elsewhere):
    if elsewhere:
        return x
    return x.cuda()


def told(x, fused):
    print("fused", fused)
    return x


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = told(torch.zeros(1, 2), device.type == "cuda")
print(ready(x, device.type != "cuda").device.type)
