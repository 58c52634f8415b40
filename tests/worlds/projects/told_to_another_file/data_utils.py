import torch


def move_to_cuda(batch):
    def _move(tensor: torch.Tensor):
        return tensor.cuda()

    return {k: _move(v) for k, v in batch.items()}


def prepare_sample(samples, cuda_enabled=True):
    if cuda_enabled:
        samples = move_to_cuda(samples)
    return samples
