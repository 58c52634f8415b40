# refuses: cpu nogpu
import torch

assert torch.cuda.is_available(), "CPU training is not allowed."
model = torch.nn.Linear(2, 2).cuda()
print("model", model.weight.device)
