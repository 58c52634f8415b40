class Base:
    def where(self):
        return self.device
