"""Classes of unequal size: the loss is weighted."""

import torch
from torch import nn


def class_weights(labels):
    counts = torch.bincount(labels, minlength=3).float()
    return counts.sum() / counts


def main():
    torch.manual_seed(0)
    points = torch.randn(60, 2)
    labels = (points[:, 0] > 0.8).long() + (points[:, 1] > 1.0).long()
    weights = class_weights(labels)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    if torch.cuda.is_available():
        model, points, labels = model.cuda(), points.cuda(), labels.cuda()
    if torch.cuda.is_available():
        weights = weights.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(4):
        loss = nn.functional.cross_entropy(model(points), labels, weight=weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
