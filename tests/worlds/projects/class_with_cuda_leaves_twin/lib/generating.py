class Generator:
    def __init__(self, weight):
        self.weight = weight

    def cuda(self):
        self.weight = self.weight.cuda()
        return self

    def generate(self, size):
        return size + self.weight
