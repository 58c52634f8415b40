# env: ASKED=cuda:0
import os

import torch

asked = os.environ.get("ASKED", "cuda")
if asked.startswith("cuda") and torch.cuda.device_count() == 0:
    asked = "cpu"


class Config:
    def __init__(self):
        self.place = asked


print("on", torch.device(Config().place))
