# wants: xpu
import torch
import torch.distributed as dist

backend = "nccl" if torch.cuda.is_available() else "gloo"
dist.init_process_group(backend)
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
if torch.distributed.get_world_size() > 1:
    dist.all_reduce(x)
print("sum", x.device)
