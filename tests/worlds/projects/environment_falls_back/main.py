# keeps: mps xpu npu
import os

import torch

asked = os.environ.get("ASKED", "cuda")
if asked.split(":")[0] == "cuda" and not torch.cuda.is_available():
    asked = "cpu"
model = torch.nn.Linear(2, 2).to(asked)
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("s1", model(x).device)
