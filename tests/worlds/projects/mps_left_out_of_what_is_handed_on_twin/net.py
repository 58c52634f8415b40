import torch


class Net:
    def __init__(self):
        self.weights = torch.ones(2)
        if torch.cuda.is_available():
            self.weights = self.weights.cuda()

    def run(self, x):
        return x + self.weights
