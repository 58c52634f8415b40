# wants: mps xpu npu
import torch

match bool(torch.cuda.is_available()):
    case True:
        place = "cuda:0"
    case _:
        place = "cpu"
print("s1", torch.zeros(1, device=place).device.type)
