# wants: mps
import torch


class Net(torch.nn.Linear):
    def go(self):
        return "here"


device = "cuda" if torch.cuda.is_available() else "cpu"
print("s1", Net(2, 2, device=device).weight.device)
