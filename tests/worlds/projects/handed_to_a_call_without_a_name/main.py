# wants: mps
import torch


class Net(torch.nn.Module):
    def __init__(self, device):
        super().__init__()
        self.weight = torch.zeros(2, device=device)


device = torch.device("cuda:0")
net = {"small": Net}["small"](device=device).to(device)
print("s1", net.weight.device)
