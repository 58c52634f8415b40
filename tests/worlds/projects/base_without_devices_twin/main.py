# wants: mps xpu npu
import torch
from base import Base


class Child(Base):
    def __init__(self):
        self.device = "cuda:0" if torch.cuda.is_available() else "cpu"


print("s1", torch.device(Child().where()))
