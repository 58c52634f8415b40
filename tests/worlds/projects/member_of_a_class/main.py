import enum

import torch


class Kind(enum.Enum):
    CUDA = "cuda"
    CPU = "cpu"


kind = Kind.CUDA if torch.cuda.is_available() else Kind.CPU
model = torch.nn.Linear(2, 2).to(kind.value)
x = torch.ones(2)
if torch.cuda.device_count() > 0:
    x = x.cuda()
print("data", model(x).device)
