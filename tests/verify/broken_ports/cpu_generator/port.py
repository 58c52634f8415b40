"""A denoiser: the noise has a generator of its own, so that runs are comparable. Broken: it is the CPU's."""

import torch
from torch import nn

DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


def noisy(images, level, generator):
    noise = torch.randn(images.shape, generator=generator, device=DEVICE)
    return images + level * noise


def main():
    torch.manual_seed(0)
    images = torch.rand(8, 1, 8, 8).to(DEVICE)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator()
    generator.manual_seed(7)
    for step in range(4):
        loss = nn.functional.mse_loss(model(noisy(images, 0.2, generator)), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
