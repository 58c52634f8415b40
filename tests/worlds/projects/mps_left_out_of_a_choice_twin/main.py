# wants: mps
import torch

from metrics import accuracy


def evaluate(model, x):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print("s1", model.to(device)(x.to(device)).device)
    return accuracy(model(x.to(device)), x.to(device))


evaluate(torch.nn.Linear(2, 2), torch.ones(2))
