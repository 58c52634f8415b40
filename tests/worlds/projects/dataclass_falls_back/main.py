from dataclasses import dataclass

import torch


@dataclass
class Settings:
    device: str = "cuda"

    def __post_init__(self):
        if self.device == "cuda" and not torch.cuda.device_count() > 0:
            self.device = "cpu"


print("s1", torch.device(Settings().device))
