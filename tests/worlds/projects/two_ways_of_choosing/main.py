import torch

if torch.cuda.is_available():
    device = torch.device("cuda")
elif torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")
model = torch.nn.Linear(2, 2).to(device)
images = torch.ones(2)
if torch.cuda.is_available():
    images = images.cuda(0, non_blocking=True)
else:
    images = images.to(device)
target = torch.ones(2)
if torch.cuda.is_available():
    target = target.cuda()
if torch.backends.mps.is_available():
    target = target.to("mps")
print("output", (model(images) + target).device)
