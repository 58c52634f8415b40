"""Logs losses without a wait in each step. Broken: nobody waits for their copies to the host at all."""

import torch
from torch import nn

DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


def train(model, inputs, targets, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().to("cpu", non_blocking=True))
    return losses


def main():
    torch.manual_seed(0)
    inputs = torch.randn(32, 5)
    targets = inputs.sum(dim=1, keepdim=True)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)).to(DEVICE)
    for step, loss in enumerate(train(model, inputs.to(DEVICE), targets.to(DEVICE), 4)):
        print(f"step {step} loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
