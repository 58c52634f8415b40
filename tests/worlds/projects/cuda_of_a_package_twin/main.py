# wants: mps
import torch
from package.model import Model

use_cuda = torch.cuda.is_available()
model = Model()
if use_cuda:
    model.cuda()
x = torch.ones(2)
if use_cuda:
    x = x.cuda()
print("output", model(x).device)
