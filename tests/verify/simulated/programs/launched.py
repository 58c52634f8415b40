"""DistributedDataParallel in two processes, however launched. Arguments: how, the device type, the helper's file.

Each rank writes its losses and weights to rank<n>.json.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

HOW, KIND, HELPER = sys.argv[1:]


def helper() -> Any:
    spec = importlib.util.spec_from_file_location("accel", HELPER)
    module = importlib.util.module_from_spec(spec)
    sys.modules["accel"] = module
    spec.loader.exec_module(module)
    return module


def train(rank: int) -> None:
    device = torch.device(KIND, rank) if KIND != "cpu" else torch.device("cpu")
    if KIND != "cpu":
        torch.accelerator.set_device_index(rank)
    dist.init_process_group("gloo" if KIND == "cpu" else helper().dist_backend())
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 8), torch.randn(32, 2))
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 2)).to(device)
    net = DistributedDataParallel(net, device_ids=None if KIND == "cpu" else [rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for x, y in DataLoader(data, batch_size=4, sampler=DistributedSampler(data)):
        loss = nn.functional.mse_loss(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with open(f"rank{rank}.json", "w") as file:
        json.dump({"library": dist.get_backend(), "losses": losses, "weights": net.module[0].weight.tolist()}, file)
    dist.destroy_process_group()


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def spawned(rank: int, port: str) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    train(rank)


def launch() -> None:
    """As a script that starts its own processes, one way or the other."""
    if HOW == "spawn":
        mp.spawn(spawned, (free_port(),), nprocs=2)
    else:
        start_ranks()


def start_ranks() -> None:
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    started = []
    for rank in ("0", "1"):
        environment = {**common, "RANK": rank, "LOCAL_RANK": rank}
        started.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    statuses = [rank.wait() for rank in started]
    sys.exit(any(statuses))


if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        train(int(os.environ["LOCAL_RANK"]))
    else:
        launch()
