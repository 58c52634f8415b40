# wants: mps
import torch
from loss import Loss

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
half = device.type != "cpu"
x = torch.zeros(2).to(device)
if half:
    x = x.half()
print(x.device)
where = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
print(Loss()(torch.zeros(2).to(where), [1]).device if where != "cpu" else "none")
