# wants: mps xpu npu
# refuses: cpu
import sys

import torch

if torch.cuda.is_available():
    torch.cuda.manual_seed(0)
else:
    print("[no GPU, and the CPU is too slow]")
    sys.exit(1)
print("s1", torch.ones(2).cuda().device)
