import torch
from move import to_gpu

model = torch.nn.Linear(2, 2).to("cuda" if torch.cuda.is_available() else "xpu" if torch.xpu.is_available() else "cpu")
y = torch.ones(2)
if torch.cuda.is_available():
    y = y.cuda()
print("s1", (to_gpu(torch.zeros(2)) + y).device)
