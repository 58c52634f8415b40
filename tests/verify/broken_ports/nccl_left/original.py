"""Data parallel training, here with one process."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def start():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)


def main():
    start()
    torch.manual_seed(0)
    inputs = torch.randn(32, 5).cuda()
    targets = inputs.square().mean(dim=1, keepdim=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach())
        print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
