import torch

from package.imports import is_cuda_available, is_mps_available, is_xpu_available


def get_backend():
    if is_cuda_available():
        return "cuda", torch.cuda.device_count()
    elif is_mps_available():
        return "mps", 1
    elif is_xpu_available():
        return "xpu", 1
    return "cpu", 1


def get_max_memory():
    found = {"cpu": 2}
    if is_mps_available():
        found["mps"] = 1
    elif is_xpu_available():
        found[0] = 1
    else:
        for index in range(torch.cuda.device_count()):
            found[index] = 3
    return found


def device_of_ladder():
    if is_mps_available():
        return "mps"
    elif is_xpu_available():
        return "xpu"
    else:
        return "cuda" if torch.cuda.device_count() > 0 else "cpu"


def clear():
    if is_cuda_available():
        torch.cuda.empty_cache()
