# wants: mps
import torch

if torch.cuda.is_available():
    device = torch.device("cuda")
else:
    device = torch.device("cpu")
for _ in range(2):
    x = torch.zeros(2, device=device)
print("data", x.device)
