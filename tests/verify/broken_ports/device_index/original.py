"""Trains on the last GPU: the first one draws the desktop."""

import torch
from torch import nn


def last_device():
    return torch.device("cuda", torch.cuda.device_count() - 1)


def main():
    torch.manual_seed(0)
    device = last_device()
    inputs = torch.linspace(-1, 1, 64).unsqueeze(1).to(device)
    targets = torch.sin(3 * inputs)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(4):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
