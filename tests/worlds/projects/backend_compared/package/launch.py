import torch
import torch.distributed as dist
from package import comm


def start():
    comm.backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(comm.backend)
