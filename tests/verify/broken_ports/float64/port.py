"""Regression on a table that NumPy made. Broken: it is float64 until it has reached the device."""

import numpy as np
import torch
from torch import nn

DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


def table(rows=64, columns=6):
    random = np.random.default_rng(0)
    features = random.normal(size=(rows, columns))
    targets = features @ random.normal(size=(columns, 1)) + 0.1 * random.normal(size=(rows, 1))
    return (features - features.mean(axis=0)) / features.std(axis=0), targets


def to_device(array):
    tensor = torch.from_numpy(array)
    return tensor.to(DEVICE).float()


def main():
    torch.manual_seed(0)
    features, targets = map(to_device, table())
    model = nn.Sequential(nn.Linear(features.shape[1], 16), nn.ReLU(), nn.Linear(16, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(4):
        loss = nn.functional.mse_loss(model(features), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
