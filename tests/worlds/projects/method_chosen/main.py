import torch

move = torch.zeros(2).cuda if torch.cuda.is_available() else torch.zeros(2).cpu
print("data", move().device)
