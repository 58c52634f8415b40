import torch

try:
    import torch_xla.core.xla_model as xm
except ImportError:
    xm = None


def choose():
    if xm is not None:
        device = xm.xla_device()
    else:
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
