# wants: mps
import torch

x = torch.zeros(2, device="cuda" if torch.cuda.is_available() else "cpu")
print("s1", (x + (torch.ones(2).cuda() if x.device.type == "cuda" else torch.ones(2))).device)
