import torch


class Trainer:
    def __init__(self):
        self.scaler = torch.cuda.amp.GradScaler()
