# wants: mps xpu npu
import os

import torch

device = "cuda"
if len(os.sep) == 1 and device == "cuda" and not torch.cuda.device_count() > 0:
    device = "cpu"
print(torch.ones(2).to(device).device)
