# keeps: mps
import torch

order = ["cuda", "mps", "cpu"]
n = 0
while order[n] == "cuda" and not torch.cuda.is_available() or order[n] == "mps" and not torch.backends.mps.is_available():
    n += 1
torch.set_default_device(order[n])
print("on", torch.zeros(2).device)
with torch.cuda.device(0) if torch.cuda.is_available() else torch.no_grad():
    print("on", torch.ones(2).device)
