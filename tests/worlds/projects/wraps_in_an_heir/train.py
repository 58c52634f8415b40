import torch
from spread import Numbered


def train(net, batches):
    if torch.cuda.is_available():
        net = Numbered(net)
    for batch in batches:
        print("trained on", net(batch).device.type)
