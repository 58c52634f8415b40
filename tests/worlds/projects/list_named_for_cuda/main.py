# keeps: mps xpu npu
import torch


def cuda_devices():
    if torch.cuda.is_available():
        return ["cuda"]
    return []


def mps_devices():
    return ["mps"] if torch.backends.mps.is_available() else []


names = cuda_devices() + mps_devices() + ["cpu"]
print(names[0], torch.zeros(3, device=names[0]).device)
