# keeps: cpu mps xpu npu
import torch
from torch.cuda import is_available as cuda_there
import torch.distributed as dist


def main():
    wanted = {"kind": "gloo"}
    if cuda_there():
        wanted["kind"] = "nccl"
        dist.init_process_group(wanted.get("kind"))
    else:
        dist.init_process_group("gloo")
    found = torch.cuda.is_available()
    print("kind", wanted["kind"])


if __name__ == "__main__":
    main()
