# keeps: mps xpu npu
import pkg
import torch
from pkg.lib import Loss, start

MADE = {"net": torch.zeros(2), "loss": Loss(torch.ones(1))}

pkg = MADE["net"]
if torch.cuda.is_available():
    pkg = pkg.cuda()
print("s1", (pkg + start()).device)
