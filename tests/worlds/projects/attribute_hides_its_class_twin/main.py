# wants: mps
import torch


class Base:
    device = "cpu"

    def where(self):
        return self.device


class Trainer(Base):
    def __init__(self):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"


print(torch.zeros(2, device=Trainer().where()).device)
