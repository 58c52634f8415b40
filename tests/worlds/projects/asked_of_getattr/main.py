# keeps: cpu mps xpu npu
import torch

INDEX = 0
found = getattr(torch, "cuda").is_available()
where = "cuda:{}".format(INDEX) if found else "mps" if torch.backends.mps.is_available() else "cpu"
model = torch.nn.Linear(2, 2)
if torch.cuda.is_available():
    model = model.cuda()
x = torch.ones(2)
if found:
    x = x.to("cuda:{}".format(INDEX))
print("x", model(x).device)
