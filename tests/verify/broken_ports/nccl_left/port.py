"""Data parallel training, here with one process. Broken: nccl for whatever accelerator there is."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


def start():
    backend = "gloo" if DEVICE.type == "cpu" else "nccl"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def main():
    start()
    torch.manual_seed(0)
    inputs = torch.randn(32, 5).to(DEVICE)
    targets = inputs.square().mean(dim=1, keepdim=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)).to(DEVICE))
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
