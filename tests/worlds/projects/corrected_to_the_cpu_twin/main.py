# wants: mps xpu npu
import torch


class Config:
    place = "cuda"


def main(config):
    device = "cuda"
    if not torch.cuda.is_available():
        print("no GPU is here")
        device = "cpu"
    options = {"device": "cuda:0", "size": 2}
    if torch.cuda.is_available() == False:  # noqa: E712
        options["device"] = "cpu"
    if not torch.cuda.is_available():
        config.place = "cpu"
    net = torch.nn.Linear(2, 2).to(device)
    x = torch.zeros(1, 2, device=options["device"])
    print(net(x).device.type, torch.zeros(1).to(config.place).device.type)


main(Config())
