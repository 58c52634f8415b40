"""Learns to read lines of digits: a small recogniser. Broken: MPS has no CTC loss."""

import torch
from torch import nn

CLASSES = 11  # ten digits and the blank
DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


class Recogniser(nn.Module):
    def __init__(self, height=6, width=24):
        super().__init__()
        self.columns = nn.Linear(height, width)
        self.classify = nn.Linear(width, CLASSES)

    def forward(self, lines):
        return self.classify(self.columns(lines).relu()).log_softmax(dim=2)


def main():
    torch.manual_seed(0)
    lines = torch.rand(20, 4, 6).to(DEVICE)  # columns, lines, pixels of a column
    digits = torch.randint(1, CLASSES, (4, 5)).to(DEVICE)
    lengths, sizes = torch.full((4,), 20), torch.full((4,), 5)
    model, ctc = Recogniser().to(DEVICE), nn.CTCLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = ctc(model(lines), digits, lengths, sizes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
