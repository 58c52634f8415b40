# wants: mps
from dataclasses import dataclass

import torch


@dataclass
class Settings:
    device: str = ""

    def __post_init__(self):
        if not self.device:
            self.device = "cuda" if torch.cuda.is_available() else "cpu"


print("s1", torch.device(Settings().device))
