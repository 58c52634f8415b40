# keeps: mps xpu npu
import torch
from lib.generating import Generator


class Encoded:
    def __init__(self):
        self.size, self.weight = torch.zeros(2), torch.zeros(2)


def run(encoded):
    generator = Generator(encoded.weight)
    encoded.size = generator
    size = encoded.size
    if torch.cuda.is_available():
        size = size.cuda()
    return size.generate(torch.zeros(2, device=size.weight.device))


print("s1", run(Encoded()).device)
