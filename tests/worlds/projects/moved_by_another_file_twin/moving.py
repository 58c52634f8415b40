import torch


def maybe_to_torch(data):
    return data if isinstance(data, torch.Tensor) else torch.ones(2)


def to_cuda(data, non_blocking=True, gpu_id=0):
    if isinstance(data, list):
        return [each.cuda(gpu_id, non_blocking=non_blocking) for each in data]
    return data.cuda(gpu_id, non_blocking=non_blocking)
