import torch
def decode(output, grid):
    device = None
    cuda_check = output.is_cuda
    if cuda_check:
        device = output.get_device()
    return output + torch.tensor(grid, device=device, dtype=torch.float32)
