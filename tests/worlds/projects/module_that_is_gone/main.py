# wants: mps
import torch
from utils.tools import size

try:
    from utils.utils import to_device
except ImportError:

    def to_device(x, device):
        return x.to(device)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(size([1]), to_device(torch.ones(2), device).device)
