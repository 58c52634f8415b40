# wants: mps xpu npu
import torch


def move_to_cuda(sample, device=None):
    device = device or torch.cuda.current_device()
    if isinstance(sample, dict):
        return {key: move_to_cuda(value, device) for key, value in sample.items()}
    return [each.to(device) for each in sample]


def moved_to_cuda(images, labels):
    return [images.cuda(), {"labels": labels.cuda()}]


use_cuda = torch.cuda.is_available()
sample = {"net_input": [torch.zeros(3)], "target": [torch.zeros(3)]}
sample = move_to_cuda(sample) if use_cuda else sample
images = moved_to_cuda(torch.zeros(2), torch.zeros(2)) if use_cuda else [torch.zeros(2)]
print(sample["target"][0].device, images[0].device)
