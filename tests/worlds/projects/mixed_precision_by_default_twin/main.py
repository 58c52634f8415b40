# wants: mps
from functools import partial

import torch


def context(dtype):
    return partial(torch.amp.autocast, device_type="cuda", dtype=dtype)


with context(torch.float16)():
    out = torch.nn.Linear(2, 2).cuda()(torch.ones(2).cuda())
    print("out", out.device.type)
