"""A character model. Broken: one tensor is made on the CPU and stays there."""

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
VOCABULARY = sorted(set(TEXT))
LENGTH = 16
DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


class Model(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.letters = nn.Embedding(len(VOCABULARY), width)
        self.places = nn.Embedding(LENGTH, width)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, len(VOCABULARY)))

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1])
        return self.mix(self.letters(tokens) + self.places(positions))


def main():
    torch.manual_seed(0)
    data = torch.tensor([VOCABULARY.index(letter) for letter in TEXT])
    model = Model().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(4):
        starts = torch.randint(len(data) - LENGTH - 1, (8,)).tolist()
        tokens = torch.stack([data[s : s + LENGTH] for s in starts]).to(DEVICE)
        targets = torch.stack([data[s + 1 : s + LENGTH + 1] for s in starts]).to(DEVICE)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
