import torch


def detect(model, image, use_cuda=1):
    if use_cuda:
        image = image.cuda()
    return torch.add(image, 1)
