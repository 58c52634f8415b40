"""A loader with pinned memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loader():
    inputs = torch.randn(64, 6)
    dataset = TensorDataset(inputs, inputs[:, :1] * inputs[:, 1:2])
    return DataLoader(dataset, batch_size=16, pin_memory=True)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (inputs, products) in enumerate(loader()):
        inputs, products = inputs.cuda(non_blocking=True), products.cuda(non_blocking=True)
        loss = nn.functional.mse_loss(model(inputs), products)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
