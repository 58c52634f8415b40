# env: DEVICE=cuda:1
# never: chosen cpu
import os

import torch
import torch.distributed as dist

if torch.cuda.is_available():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        print("streamed", torch.zeros(2, device="cuda").device)
backend = "nccl" if torch.cuda.is_available() else "gloo"
assert backend == "nccl" or not torch.cuda.is_available()
dist.init_process_group(backend)
print("kept", torch.device("cuda" if dist.get_backend() == "nccl" else "cpu"))
dist.destroy_process_group()


def select(device=""):
    cpu = device == "cpu"
    if device and not cpu:
        assert torch.cuda.is_available(), f"CUDA unavailable, invalid device {device} requested"
    cuda = not cpu and torch.cuda.is_available()
    return torch.device("cuda:0" if cuda else "cpu")


print("chosen", select(os.environ.get("DEVICE", "")))
print("moved", torch.nn.Linear(2, 2).to("cuda").weight.device)
