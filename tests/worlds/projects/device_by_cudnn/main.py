import torch

fast = torch.backends.cudnn.is_available()
model = torch.nn.Linear(2, 2).to("cuda" if fast else "cpu")
data = torch.ones(2)
if torch.cuda.device_count() > 0:
    data = data.cuda()
print("data", model(data).device.type)
