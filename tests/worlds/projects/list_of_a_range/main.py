import torch
import torch.distributed as dist

ids = list(range(torch.cuda.device_count()))
backend = "gloo"
if ids:
    backend = "nccl"
dist.init_process_group(backend=backend)
print("started", len(ids) > 0)
