# wants: mps xpu
import torch


def get_cuda(index):
    """Return the GPU with that index, or the CPU."""
    return torch.device("cuda:%d" % index) if torch.cuda.is_available() else torch.device("cpu")


device = get_cuda(0)
print("s0", torch.zeros(2).to(device).device)
