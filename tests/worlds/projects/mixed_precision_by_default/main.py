# keeps: nogpu cpu
from functools import partial

import torch


def context(dtype, device_type="cuda"):
    return partial(torch.amp.autocast, device_type=device_type, dtype=dtype)


with context(torch.float16)():
    print("cpu", torch.is_autocast_enabled("cpu"), "cuda", torch.is_autocast_enabled("cuda"))
