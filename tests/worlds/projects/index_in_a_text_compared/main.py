# wants: mps xpu npu
import torch


class Model:
    def parallelize(self, device_map):
        self.device_map = device_map
        self.last_device = "cuda:" + str(max(device_map))

    def forward(self, x):
        for k in self.device_map:
            x = x.to("cuda:" + str(k))
            if "cuda:" + str(k) != self.last_device:
                x = x.to("cuda:" + str(k + 1))
        print("device", x.device)


model = Model()
model.parallelize([0])
model.forward(torch.zeros(2))
