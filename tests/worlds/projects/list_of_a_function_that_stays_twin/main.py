# wants: mps xpu npu
# keeps: cpu
import torch


def get_device(use_cuda=True):
    if not torch.cuda.is_available():
        use_cuda = False
    else:
        torch.cuda.set_device(free_devices()[0])
    return torch.device(torch.cuda.current_device()) if use_cuda else torch.device("cpu")


def free_devices():
    if not torch.cuda.is_available():
        return None
    return [at for at in range(torch.cuda.device_count())]


x = torch.ones(2).to(get_device())
print("s1", x.device)
