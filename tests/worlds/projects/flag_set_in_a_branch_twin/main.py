# wants: mps
import torch
from detecting import detect


def run(model):
    if torch.cuda.is_available():
        use_cuda = 1
    else:
        use_cuda = 0
    if use_cuda:
        model = model.cuda()
    print("weight", model.weight.device)
    return detect(model, torch.ones(2), use_cuda)


print("found", run(torch.nn.Linear(2, 2)).device)
