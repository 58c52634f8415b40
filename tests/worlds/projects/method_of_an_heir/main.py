# keeps: cpu mps xpu npu
import torch


class Wrapper:
    def __init__(self):
        self.device = "cpu"

    def place(self, x):
        with torch.autocast(device_type=self.device[:4], dtype=torch.bfloat16, enabled=False):
            return x.to(self.device)


class Animal(Wrapper):
    def __init__(self, index):
        self.device = "cuda:" + str(index) if torch.cuda.is_available() else "cpu"


made = [Animal(0), Wrapper()]
for each in made:
    print("x", each.place(torch.ones(2)).device.type)
