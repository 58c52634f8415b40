# keeps: nogpu cpu mps
import contextlib

import torch


@contextlib.contextmanager
def on(device):
    yield device


INDEX = 0
has_mps = torch.backends.mps.is_available()
with on("cuda:" + str(INDEX) if torch.cuda.device_count() > 0 else "mps" if has_mps else "cpu") as where:
    print("s1", torch.device(where))
