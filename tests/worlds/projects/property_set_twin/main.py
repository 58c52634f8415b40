# wants: mps
import torch


class Net:
    def __init__(self):
        self._device = None

    @property
    def device(self):
        return self._device

    @device.setter
    def device(self, value):
        self._device = value

    def run(self):
        if self._device is None:
            raise RuntimeError("no device was given")
        return torch.zeros(2, device=self.device)


net = Net()
net.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("s1", net.run().device)
