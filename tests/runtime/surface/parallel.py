"""Several devices, several processes: the backend of collectives, DDP, DataParallel."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

import torch
import torch.distributed as dist

from . import KIND, accel, check, here, numbers, same

BACKEND = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl"}


@check
def the_backend_of_collectives() -> None:
    assert accel.dist_backend() == accel.dist_backend("nccl") == BACKEND.get(KIND, "gloo")
    assert accel.dist_backend("gloo") == "gloo"
    assert accel.dist_backend("mpi") == "mpi"


@contextlib.contextmanager
def group() -> Iterator[None]:
    """One process alone."""
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group(accel.dist_backend(), init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


NO_COLLECTIVES = ("mps", "mtia")  # no backend of collectives takes their tensors


@check(but=NO_COLLECTIVES)
def collectives() -> None:
    with group():
        x = numbers(3).to(accel.device(0))
        dist.all_reduce(x)
        dist.broadcast(x, src=0)
        gathered = [torch.empty_like(x)]
        dist.all_gather(gathered, x)
        dist.barrier(device_ids=accel.device_ids(0))
        same(gathered[0], numbers(3))


@check(but=NO_COLLECTIVES)
def ddp() -> None:
    with group():
        model = torch.nn.Linear(3, 2).to(accel.device(0))
        wrapped = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=accel.device_ids(0), output_device=accel.output_device(0)
        )
        wrapped(numbers(4, 3).to(accel.device(0))).sum().backward()
        assert model.weight.grad.device == here(0)


def data_parallel(*ids: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.DataParallel(
        torch.nn.Linear(3, 2).to(accel.device(0)),
        device_ids=accel.device_ids(ids),
        output_device=accel.output_device(0),
    )


def trains(model: torch.nn.Module) -> None:
    out = model(numbers(4, 3).to(accel.device(0)))
    assert (out.device, tuple(out.shape)) == (here(0), (4, 2))
    out.sum().backward()
    same(model.module.weight.grad, numbers(4, 3).sum(0).expand(2, 3))


# Elsewhere torch's DataParallel fails, with one device too: it scatters by torch._C._scatter, which is CUDA's alone
@check(only=("cuda", "mps"))
def data_parallel_on_one_device() -> None:
    trains(data_parallel(0))


@check(only=("cuda",), least=2)
def data_parallel_on_two_devices() -> None:
    trains(data_parallel(0, 1))
