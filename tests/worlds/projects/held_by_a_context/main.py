import contextlib

import torch

with contextlib.nullcontext("cuda" if torch.cuda.device_count() > 0 else "mps" if torch.backends.mps.is_available() else "cpu") as device:
    print("s1", torch.device(device))
