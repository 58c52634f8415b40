# wants: mps
import torch

x = torch.zeros(2)
x = x.cuda() if torch.cuda.is_available() else x.cpu()
print("data", x.device)
