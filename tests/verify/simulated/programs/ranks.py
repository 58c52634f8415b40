"""Two processes of one group, rank 0 and 1, as forks of a topic that has not used the device itself."""

from __future__ import annotations

import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from checks import KIND, MODULE

LIBRARY = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl"}.get(KIND, "gloo")
LONGEST = timedelta(seconds=30)


def here() -> torch.device:
    """This rank's device."""
    return torch.device(KIND, 0 if KIND == "mps" else dist.get_rank())


def ranks(function: Callable[[int], Any], library: str | None = LIBRARY, *, joins: bool = True, **options: Any) -> list:
    """What `function(rank)` gave in each of two processes, each with its device and, if it `joins`, in one group."""

    def run(rank: int) -> Any:
        if KIND not in ("mps", "mtia"):
            MODULE.set_device(rank)
        store = dist.FileStore(f"{folder}/store", 2)
        if joins:
            more = {name: value(rank) if callable(value) else value for name, value in options.items()}
            dist.init_process_group(library, store=store, rank=rank, world_size=2, timeout=LONGEST, **more)
        try:
            return function(rank)
        finally:
            store.set(f"rank {rank} is done", "")
            store.wait([f"rank {1 - rank} is done"], LONGEST)  # one that ends early may cut off one that still connects
            if dist.is_initialized():
                dist.destroy_process_group()

    with tempfile.TemporaryDirectory() as folder:  # a TCPStore has threads, which do not go with forks
        answers = [_answer(*started) for started in [_fork(run, rank) for rank in range(2)]]
    wrong = "".join(told for _, told in answers)
    assert not wrong, wrong
    return [result for result, _ in answers]


def _fork(run: Callable[[int], Any], rank: int) -> tuple[int, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        answer = (run(rank), "")
    except BaseException:
        answer = (None, f"rank {rank}: {traceback.format_exc()}")
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump(answer, pipe)
    os._exit(0)


def _answer(child: int, reader: int) -> tuple[Any, str]:
    """(result, traceback) of a rank."""
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return pickle.loads(told) if told and status == 0 else (None, f"a rank ended with status {status}\n")


def tensor(values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """On this rank's device."""
    return torch.tensor(values, dtype=dtype, device=here())


def empty(*size: int) -> torch.Tensor:
    return torch.empty(*size, device=here())


def reduced(op: Any, dtype: torch.dtype = torch.float32) -> Callable[[int], list]:
    """all_reduce of [1, 6] and [2, 3]."""

    def run(rank: int) -> list:
        x = tensor([[1, 6], [2, 3]][rank], dtype)
        dist.all_reduce(x, op)
        assert x.device == here() and x.dtype == dtype
        return x.tolist()

    return run
