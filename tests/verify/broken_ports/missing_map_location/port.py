"""Classifies a few measurements with weights that came from a machine with CUDA. Broken: they cannot go elsewhere."""

import torch
from torch import nn

MEASUREMENTS = [[5.1, 3.5, 1.4, 0.2], [6.7, 3.1, 4.7, 1.5], [6.3, 3.3, 6.0, 2.5]]

DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


def load(path):
    checkpoint = torch.load(path)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    model.load_state_dict(checkpoint["model"])
    print("weights of epoch", checkpoint["epoch"])
    return model.eval()


@torch.no_grad()
def main():
    model = load("weights.pt").to(DEVICE)
    scores = model(torch.tensor(MEASUREMENTS).to(DEVICE)).softmax(dim=1)
    for number, row in enumerate(scores.tolist()):
        print(number, " ".join(f"{score:.4f}" for score in row))


if __name__ == "__main__":
    main()
