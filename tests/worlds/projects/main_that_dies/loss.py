import torch


class Loss:
    def __init__(self, use_gpu):
        self.use_gpu = use_gpu
        self.net = torch.zeros(1)
        if self.use_gpu:
            self.net = self.net.cuda()
            print("s1", "fast")
