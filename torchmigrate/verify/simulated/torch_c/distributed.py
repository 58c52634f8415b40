"""torch.distributed on simulated devices: each backend's own library by name (nccl, xccl, hccl), carried by gloo.

What the libraries refuse is in native/communication.h. MPS and MTIA have none, in torch as here.
"""

from __future__ import annotations

import atexit
import time
import types
from datetime import timedelta
from typing import Any

from ..settings import Settings

LIBRARIES = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl"}
_IN_TREE = {"nccl": "ProcessGroupNCCL", "xccl": "ProcessGroupXCCL"}
_ends_gently: list[Any] = []


def offer(settings: Settings) -> None:
    """Just before torch.distributed's modules run, which look in torch._C for the libraries of its build."""
    import torch._C._distributed_c10d as c10d

    library = LIBRARIES.get(settings.backend)
    if library in _IN_TREE:
        name = _IN_TREE[library]
        setattr(c10d, name, _process_group(c10d, name, library, settings.backend))
        c10d._DEFAULT_PG_NCCL_TIMEOUT = timedelta(minutes=10)  # as torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp
    _watch_groups(c10d, settings.backend)


def register(settings: Settings) -> None:
    """Just after torch.distributed.distributed_c10d has run: the library that an NPU's own package would register."""
    import torch._C._distributed_c10d as c10d
    from torch.distributed.distributed_c10d import Backend

    def create(options: Any, _: Any) -> Any:
        return staged(c10d, "hccl", "npu", options.store, options.group_rank, options.group_size, options.timeout)

    if settings.backend == "npu":
        Backend.register_backend("hccl", create, extended_api=True, devices=["npu"])


def staged(c10d: Any, library: str, device: str, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """A c10d Backend by that name for the device's tensors. Blocks until all ranks have come, as gloo does."""
    import torch

    gloo = c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)
    carrier = c10d.ProcessGroup(store, rank, size)  # only to get into C++ and back
    carrier._register_backend(torch.device("cpu"), c10d.ProcessGroup.BackendType.GLOO, gloo)
    torch.ops.torchmigrate_simulated.stage(carrier.boxed(), library)
    return carrier._get_backend(torch.device(device))


def _process_group(c10d: Any, name: str, library: str, device: str) -> type:
    """The class torch.distributed.ProcessGroupNCCL (or XCCL), as far as programs use it."""

    class Named(type):
        def __instancecheck__(cls, thing: Any) -> bool:
            return isinstance(thing, c10d.Backend) and thing.name() == library

    class Options(c10d.Backend.Options):  # type: ignore[misc]
        def __init__(self, is_high_priority_stream: bool = False) -> None:
            super().__init__(library)
            self.is_high_priority_stream = is_high_priority_stream
            self.config = types.SimpleNamespace()

    def new(cls: Any, store: Any, rank: int, size: int, options: Any = None) -> Any:
        timeout = (options or Options())._timeout
        return staged(c10d, library, device, store, rank, size, timeout)

    return Named(name, (), {"__new__": new, "Options": Options})


def _watch_groups(c10d: Any, simulated: str) -> None:
    """Each group's libraries pass through here as it is made."""
    import torch

    register_backend = c10d.ProcessGroup._register_backend

    def _register_backend(self: Any, device: Any, kind: Any, backend: Any = None) -> None:
        if not _ends_gently:
            _ends_gently.append(atexit.register(_let_gloo_finish))
        register_backend(self, device, kind, backend)
        if device.type == simulated == "cuda" and isinstance(backend, c10d.ProcessGroupGloo):
            # as a CUDA build's gloo takes CUDA tensors
            torch.ops.torchmigrate_simulated.stage(self.boxed(), "gloo")

    c10d.ProcessGroup._register_backend = _register_backend


def _let_gloo_finish() -> None:
    """Threads of gloo drop a collective's tensors some time after it; without an interpreter that ends the process.

    (In torch itself; a loaded machine, as where several devices are simulated, makes it likely.)"""
    time.sleep(0.1)
