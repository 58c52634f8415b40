"""Regression on a table that NumPy made: it is float64 until it has reached the GPU."""

import numpy as np
import torch
from torch import nn


def table(rows=64, columns=6):
    random = np.random.default_rng(0)
    features = random.normal(size=(rows, columns))
    targets = features @ random.normal(size=(columns, 1)) + 0.1 * random.normal(size=(rows, 1))
    return (features - features.mean(axis=0)) / features.std(axis=0), targets


def to_gpu(array):
    return torch.from_numpy(array).cuda().float()


def main():
    torch.manual_seed(0)
    features, targets = map(to_gpu, table())
    model = nn.Sequential(nn.Linear(features.shape[1], 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(4):
        loss = nn.functional.mse_loss(model(features), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
