import json
import types

import torch

config = json.loads('{"device": "cuda"}', object_hook=lambda items: types.SimpleNamespace(**items))
if config.device == "cuda" and torch.cuda.device_count() == 0:
    config.device = "cpu"


class Trainer:
    def __init__(self, config):
        self.config = config

    def run(self):
        return torch.zeros(2).to(self.config.device).device


print("on", Trainer(config).run())
