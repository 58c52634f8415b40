# input:
# input: --backend gloo
import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="nccl", choices=["nccl", "gloo"])
args = parser.parse_args()
if not torch.cuda.is_available():
    args.backend = "gloo"
assert args.backend in ["gloo", "nccl"]
dist.init_process_group(backend=args.backend)
print("kind", {"nccl": "many", "gloo": "one"}[dist.get_backend()])
