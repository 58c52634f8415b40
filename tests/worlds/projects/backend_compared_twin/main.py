# wants: mps
import torch
import torch.distributed as dist

use_cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if use_cuda else "gloo")
device = torch.device("cuda" if use_cuda else "cpu")
print("device", device, dist.is_initialized())
