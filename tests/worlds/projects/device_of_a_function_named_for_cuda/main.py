# keeps: mps xpu
import torch


def get_cuda(index):
    return torch.device("cuda:%d" % index) if torch.cuda.is_available() else torch.device("cpu")


def get_mps():
    return torch.device("mps") if torch.backends.mps.is_available() else torch.device("cpu")


device = get_cuda(0)
if device.type == "cpu":
    device = get_mps()
print("s0", device, torch.zeros(2).to(device).device)
