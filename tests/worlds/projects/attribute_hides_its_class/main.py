import json

import torch

config = json.loads('{"device": "cuda"}')
config["device"] = config["device"] if torch.cuda.is_available() else "cpu"


class Base:
    device = "cpu"

    def where(self):
        return self.device


class Trainer(Base):
    def __init__(self):
        self.device = config["device"]


print(torch.device(Trainer().where()))
