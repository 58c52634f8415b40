# wants: mps
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.zeros(2, device=device)
if "cuda" in str(device):
    x = x.cuda()
print("device", x.device)
