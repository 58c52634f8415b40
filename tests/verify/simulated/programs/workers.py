"""Processes that a program starts: DataLoader workers, multiprocessing, forks."""

from __future__ import annotations

import os
import traceback
from typing import Any

import torch
import torch.multiprocessing as mp
from checks import DEVICE, KIND, check, refused, same
from torch.utils.data import DataLoader, Dataset

CANNOT = f"Cannot re-initialize {KIND.upper()} in forked subprocess. To use {KIND.upper()} with multiprocessing"


class Numbers(Dataset):
    """0, 1, ...; with `device`, made there."""

    def __init__(self, device: object = "cpu") -> None:
        self.device = device

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.tensor([float(i)], device=self.device)


def batches(**options: Any) -> list[torch.Tensor]:
    return list(DataLoader(Numbers(), batch_size=2, **options))


def in_a_fork(function: Any) -> str:
    """What it raised in a child of this process, "" for nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            function()
            os.write(writing, b"")
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        return told.read()


# ---- before the device was used


@check(but=("mps",))
def a_fork_of_a_process_that_has_not_used_the_device() -> None:
    assert not torch.ops.torchmigrate_simulated.in_bad_fork()
    assert in_a_fork(lambda: same(torch.ones(2, device=DEVICE) + 1, [2.0, 2.0])) == ""
    assert in_a_fork(lambda: torch.manual_seed(0)) == ""


# ---- workers of a DataLoader


@check
def workers_by_fork() -> None:
    torch.ones(2, device=DEVICE).sum().item()  # used: as a training program has
    same(torch.cat(batches(num_workers=2)).flatten(), range(6))


@check(but=("mps",))
def workers_by_fork_and_pinned_batches() -> None:
    loaded = batches(num_workers=2, pin_memory=True, persistent_workers=False)
    assert all(batch.is_pinned() for batch in loaded)
    same(torch.cat([batch.to(DEVICE, non_blocking=True) for batch in loaded]).flatten(), range(6))


@check(but=("mps",))
def pinning_for_the_second_device() -> None:
    with torch.accelerator.device_index(1):
        assert all(batch.is_pinned() for batch in batches(num_workers=1, pin_memory=True))


@check(only=("cuda", "mps"))
def workers_by_spawn() -> None:
    pins = KIND != "mps"
    loaded = batches(num_workers=1, multiprocessing_context="spawn", pin_memory=pins)
    same(torch.cat(loaded).flatten(), range(6))
    assert all(batch.is_pinned() == pins for batch in loaded)


@check
def workers_by_fork_cannot_use_the_device() -> None:
    torch.ones(2, device=DEVICE)
    with refused(CANNOT, "DataLoader worker process 0"):
        next(iter(DataLoader(Numbers(DEVICE), num_workers=1)))


@check
def worker_seeds_do_not_touch_the_device() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3, device=DEVICE)
    torch.manual_seed(3)
    batches(num_workers=1)
    same(torch.rand(3, device=DEVICE), expected)


# ---- processes of one's own


@check
def a_fork_of_a_process_that_has_used_the_device() -> None:
    x = torch.ones(2, device=DEVICE)
    for attempt in (
        lambda: torch.ones(2, device=DEVICE),
        lambda: x + 1,
        lambda: x.cpu(),
        lambda: torch.ones(2).to(DEVICE),
    ):
        assert CANNOT in in_a_fork(attempt)
    same(x + 1, [2.0, 2.0])


@check
def a_fork_may_work_on_the_cpu() -> None:
    torch.ones(2, device=DEVICE)
    assert in_a_fork(lambda: torch.ones(3).sum().item()) == ""
    assert in_a_fork(lambda: torch.manual_seed(1)) == ""


def train(rank: int, seen: Any) -> None:
    torch.accelerator.set_device_index(rank if KIND != "mps" else 0)
    x = torch.full((2,), float(rank + 1), device=KIND)
    seen[rank] = (x.device.index, (x * x).sum().item())


@check(only=("npu",))
def spawned_processes() -> None:
    torch.ones(2, device=DEVICE)
    with mp.Manager() as manager:
        seen = manager.dict()
        mp.spawn(train, (seen,), nprocs=2)
        assert dict(seen) == {0: (0, 2.0), 1: (1, 8.0)}


@check(only=("xpu",))
def processes_of_a_fork_server() -> None:
    context = mp.get_context("forkserver")
    with context.Manager() as manager:
        seen = manager.dict()
        process = context.Process(target=train, args=(1, seen))
        process.start()
        process.join()
        assert dict(seen) == {1: (1, 8.0)}


def fails(rank: int) -> None:
    torch.ones(2, device=DEVICE) + torch.ones(3)


@check(only=("mtia",))
def an_error_in_a_spawned_process_reaches_the_program() -> None:
    with refused("Expected all tensors to be on the same device", error=mp.ProcessRaisedException):
        mp.spawn(fails, nprocs=1)


@check
def tensors_of_the_cpu_go_through_queues() -> None:
    queue = mp.get_context("fork").SimpleQueue()
    queue.put(torch.ones(2, device=DEVICE).cpu())
    same(queue.get().to(DEVICE), [1.0, 1.0])


@check
def tensors_of_the_device_do_not_go_through_queues() -> None:
    # CUDA's go by a handle of its driver, which a simulated device has not
    queue = mp.get_context("fork").SimpleQueue()
    words = {"cuda": "CUDA error: operation not supported"}.get(KIND, "")
    with refused(words, error=(RuntimeError, NotImplementedError, AttributeError)):
        queue.put(torch.ones(2, device=DEVICE))
