import torch


class Runner:
    def __init__(self, cfg, model, task):
        self.device = torch.device(cfg["device"])
        self.model, self.task = model.to(self.device), task

    @property
    def cuda_enabled(self):
        return self.device.type == "cuda"

    def train_epoch(self, loader):
        return self.task.train_epoch(self.model, loader, cuda_enabled=self.cuda_enabled)
