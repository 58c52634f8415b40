# wants: mps
import contextlib

import torch

with contextlib.nullcontext("cuda" if torch.cuda.is_available() else "cpu") as device:
    print("s1", torch.device(device))
