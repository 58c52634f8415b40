import torch
import torch.distributed as dist

backend = "nccl" if dist.is_nccl_available() and torch.cuda.is_available() else "gloo"
dist.init_process_group(backend)
print("group", backend == dist.get_backend())
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
dist.all_reduce(x)
print("sum", x.device)
