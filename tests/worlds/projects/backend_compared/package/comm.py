import torch.distributed as dist

backend = None


def device_of_group():
    assert dist.get_backend() in ["gloo", "nccl"], dist.get_backend()
    if dist.get_backend() == "nccl":
        return "cuda"
    return "cpu"
