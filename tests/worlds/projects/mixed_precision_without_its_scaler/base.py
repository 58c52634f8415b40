import ctranslate2
import torch


class Trainer:
    def __init__(self, wanted="cuda"):
        self.scaler = torch.amp.GradScaler(wanted)
        self.other = ctranslate2.Translator("model", device=wanted)
