# keeps: cpu mps
# wants: xpu npu
import torch

from graph import adjacency

model = torch.nn.Linear(2, 2)
x = torch.ones(2)
if torch.cuda.is_available():
    model = model.cuda()
    x = x.cuda()
print("s1", (model(x) + adjacency(2)).device)
