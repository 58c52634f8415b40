"""A denoiser: the noise has a generator of its own, so that runs are comparable."""

import torch
from torch import nn


def noisy(images, level, generator):
    noise = torch.randn(images.shape, generator=generator, device="cuda")
    return images + level * noise


def main():
    torch.manual_seed(0)
    images = torch.rand(8, 1, 8, 8).cuda()
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator(device="cuda")
    generator.manual_seed(7)
    for step in range(4):
        loss = nn.functional.mse_loss(model(noisy(images, 0.2, generator)), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
