# wants: mps
import torch
from lib.generating import Generator


class Encoded:
    def __init__(self):
        self.size, self.weight = torch.zeros(2), torch.zeros(2)
        if torch.cuda.is_available():
            self.weight = self.weight.cuda()


def run(encoded):
    size = encoded.size
    generator = Generator(encoded.weight)
    if encoded.weight.is_cuda:
        size = size.cuda()
    return generator.generate(size)


print("s1", run(Encoded()).device)
