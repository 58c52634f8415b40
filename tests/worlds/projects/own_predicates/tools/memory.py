import torch

from tools.asked import is_cuda_available, is_mps_available, is_xpu_available


def get_backend():
    if is_cuda_available():
        return "cuda", torch.cuda.device_count()
    elif is_mps_available():
        return "mps", 1
    elif is_xpu_available():
        return "xpu", torch.xpu.device_count()
    return "cpu", 1


def get_max_memory():
    found = {}
    if is_xpu_available():
        for i in range(torch.xpu.device_count()):
            found[f"xpu:{i}"] = 1
    elif is_mps_available():
        found["mps"] = 1
    elif is_cuda_available():
        for i in range(torch.cuda.device_count()):
            torch.tensor(0, device=f"cuda:{i}")
            found[i] = 1
    found["cpu"] = 1
    return found
