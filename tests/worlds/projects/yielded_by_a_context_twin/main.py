# wants: mps xpu npu
import contextlib

import torch


@contextlib.contextmanager
def on(device):
    yield device


with on("cuda" if torch.cuda.is_available() else "cpu") as where:
    print("s1", torch.device(where))
