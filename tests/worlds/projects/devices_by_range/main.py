import torch

count = torch.cuda.device_count()
last = ([f"cuda:{i}" for i in range(count)] or ["cpu"])[-1]
print("data", torch.device(last))
