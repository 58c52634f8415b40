# keeps: nogpu cpu mps
import torch
from base import Base

INDEX = 0


class Child(Base):
    def __init__(self):
        has_mps = torch.backends.mps.is_available()
        self.device = "cuda:{}".format(INDEX) if torch.cuda.is_available() else "mps" if has_mps else "cpu"


print("s1", torch.device(Child().where()))
