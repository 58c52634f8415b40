# wants: mps
from kit import *

device = torch.device("cuda", index=0) if torch.cuda.is_available() else torch.device("cpu")
if torch.cuda.is_available():
    torch.cuda.set_device(0)
print("data", ones(2, device=device).device.type)
