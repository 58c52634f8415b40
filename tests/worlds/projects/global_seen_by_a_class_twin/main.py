# wants: mps
import torch

chosen = "cpu"
if torch.cuda.device_count() > 0:
    chosen = "cuda"


class Config:
    def __init__(self):
        self.place = chosen


print("on", torch.device(Config().place))
