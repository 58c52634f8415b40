"""Feeds the device from pinned memory, one batch ahead. Broken: MPS cannot pin the host's."""

import torch
from torch import nn

DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


def batches(inputs, targets, size):
    for pair in zip(inputs.split(size), targets.split(size), strict=True):
        if DEVICE.type != "cpu":
            pair = [part.pin_memory() for part in pair]
        yield [part.to(DEVICE, non_blocking=True) for part in pair]


def main():
    torch.manual_seed(0)
    inputs = torch.randn(64, 1, 8, 8)
    targets = inputs.mean(dim=(2, 3))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (images, means) in enumerate(batches(inputs, targets, 16)):
        loss = nn.functional.mse_loss(model(images), means)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
