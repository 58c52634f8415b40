# keeps: mps xpu npu
import torch


class Net:
    def __init__(self):
        self._device = None

    @property
    def device(self):
        return self._device

    @device.setter
    def device(self, value):
        if value.type not in ("cuda", "cpu"):
            raise RuntimeError(f"{value} is not known")
        self._device = value


net = Net()
net.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("s1", torch.zeros(2, device=net.device).device)
