"""Let simulated devices communicate: DataParallel, torch.cuda.nccl, and torch.distributed's process groups.

The first part follows torch/csrc/cuda/comm.cpp and python_comm.cpp: devices are indices, -1 is the CPU, and results are
on the simulated devices. The second part puts gloo in the place of nccl, xccl and hccl.
"""

from __future__ import annotations

import atexit
import contextlib
import time
import types
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..profiles import Settings

if TYPE_CHECKING:
    from torch import Tensor


def functions() -> dict[str, Callable[..., Any]]:
    """Return functions by their names in `torch._C`, for CUDA; DataParallel needs them, and fails elsewhere."""
    made = (broadcast, broadcast_out, broadcast_coalesced, scatter, scatter_out, gather, gather_out)
    nccl = (all_reduce, reduce, all_gather, reduce_scatter)
    return {
        **{f"_{function.__name__}": function for function in made},
        **{f"_nccl_{function.__name__}": function for function in nccl},
        "_nccl_broadcast": lambda inputs, root, streams, comms: broadcast_out(inputs[root], inputs),
    }


def broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """Copy a tensor to each device; if it is on a device, that must be the first, and the first result is `tensor`."""
    if not tensor.is_cuda:
        return [_copy(tensor, i) for i in devices]
    if tensor.get_device() != devices[0]:
        raise RuntimeError("device of broadcasted tensor must appear as the first on devices list")
    return [tensor, *(_copy(tensor, i) for i in devices[1:])]


def broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> Sequence[Tensor]:
    """Copy a tensor into tensors of the same size."""
    for i, each in enumerate(out):
        if not each.is_cuda:
            wrong = f"output tensor at index {i} has device '{each.device}'"
            raise RuntimeError(f"Expected all output tensors to be CUDA tensors, but {wrong}")
        if each is not tensor:
            each.copy_(tensor)
    return out


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
    """Copy tensors to each device, with version counters of their own; the first device keeps the tensors."""
    if any(tensor.get_device() != devices[0] for tensor in tensors):
        raise RuntimeError("All tensors must be on devices[0]: " + str(devices[0]))
    return [list(tensors), *([_copy(tensor.detach(), i).contiguous() for tensor in tensors] for i in devices[1:])]


def scatter(
    tensor: Tensor, devices: Sequence[int], chunk_sizes: Sequence[int] | None, dim: int, streams: Any
) -> list[Tensor]:
    """Copy chunks along `dim` to the devices, each on its stream; a short tensor gives fewer chunks than devices."""
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    elif sum(chunk_sizes) != tensor.size(dim):
        raise RuntimeError(
            "given chunk sizes don't sum up to the tensor's size "
            f"(sum(chunk_sizes) == {sum(chunk_sizes)}, but expected {tensor.size(dim)})"
        )
    else:
        chunks = tensor.split_with_sizes(list(chunk_sizes), dim)
    return [_copy_on_stream(chunk, devices[i], streams and streams[i]) for i, chunk in enumerate(chunks)]


def _copy_on_stream(chunk: Tensor, device: int, stream: Any) -> Tensor:
    with stream or contextlib.nullcontext():
        return chunk.to(f"cuda:{device}", non_blocking=True)


def scatter_out(tensor: Tensor, out: Sequence[Tensor], dim: int, streams: Any) -> Sequence[Tensor]:
    """Copy chunks into tensors whose sizes along `dim` sum to the tensor's."""
    total = sum(each.size(dim) for each in out)
    if total != tensor.size(dim):
        raise RuntimeError(f"Total size of the outputs along dim {dim} is {total}, the tensor's is {tensor.size(dim)}")
    for each, chunk in zip(out, tensor.split_with_sizes([each.size(dim) for each in out], dim)):
        each.copy_(chunk)
    return out


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    """Concatenate tensors on the destination, or on the current device if that is None."""
    import torch

    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    if not all(tensor.is_cuda for tensor in tensors):
        raise RuntimeError("Gather expects all inputs to have CUDA type")
    device = (
        "cpu" if destination == -1 else f"cuda:{torch.cuda.current_device() if destination is None else destination}"
    )
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    """Concatenate tensors into a tensor of the right size."""
    if out.size(dim) != sum(tensor.size(dim) for tensor in tensors):
        raise RuntimeError(f"Expected out tensor to have size {sum(t.size(dim) for t in tensors)} at dim {dim}")
    return out.copy_(gather(tensors, dim, out.get_device()))


def _copy(tensor: Tensor, device: int) -> Tensor:
    return tensor.to(f"cuda:{device}", non_blocking=True, copy=True)


# NCCL in one process. torch.cuda.nccl has checked that there is one tensor per device.
_REDUCTIONS = {0: "add", 1: "mul", 2: "maximum", 3: "minimum"}  # values of ncclRedOp_t


def _reduce(tensors: Sequence[Tensor], op: int, device: Any) -> Tensor:
    import torch

    total, *rest = (tensor.to(device) for tensor in tensors)
    for each in rest:
        total = getattr(torch, _REDUCTIONS[op])(total, each)
    return total


def all_reduce(inputs: Sequence[Tensor], outputs: Sequence[Tensor], op: int, streams: Any, comms: Any) -> None:
    """Implement torch.cuda.nccl.all_reduce."""
    for output, total in zip(outputs, [_reduce(inputs, op, output.device) for output in outputs]):
        output.copy_(total)


def reduce(inputs: Sequence[Tensor], output: Tensor, root: int, op: int, streams: Any, comms: Any) -> None:
    """Implement torch.cuda.nccl.reduce."""
    output.copy_(_reduce(inputs, op, output.device))


def all_gather(inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Any, comms: Any) -> None:
    """Implement torch.cuda.nccl.all_gather."""
    for output in outputs:
        output.view(-1).copy_(gather([each.flatten() for each in inputs], 0, output.get_device()))


def reduce_scatter(inputs: Sequence[Tensor], outputs: Sequence[Tensor], op: int, streams: Any, comms: Any) -> None:
    """Implement torch.cuda.nccl.reduce_scatter."""
    for i, output in enumerate(outputs):
        output.copy_(_reduce(inputs, op, output.device).flatten().chunk(len(outputs))[i].view_as(output))


LIBRARIES = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl"}
_IN_TREE = {"nccl": "ProcessGroupNCCL", "xccl": "ProcessGroupXCCL"}
_ends_gently: list[Any] = []


def offer(settings: Settings) -> None:
    """Offer the backend's library in torch._C, just before torch.distributed's modules look for it there."""
    import torch._C._distributed_c10d as c10d

    library = LIBRARIES.get(settings.backend)
    if library in _IN_TREE:
        name = _IN_TREE[library]
        setattr(c10d, name, _process_group(c10d, name, library, settings.backend))
        c10d._DEFAULT_PG_NCCL_TIMEOUT = timedelta(minutes=10)  # as in torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp
    _watch_groups(c10d, settings.backend)


def register(settings: Settings) -> None:
    """Register hccl, as an NPU's own package would; call it just after torch.distributed.distributed_c10d has run."""
    import torch._C._distributed_c10d as c10d
    from torch.distributed.distributed_c10d import Backend

    def create(options: Any, _: Any) -> Any:
        return staged(c10d, "hccl", "npu", options.store, options.group_rank, options.group_size, options.timeout)

    if settings.backend == "npu":
        Backend.register_backend("hccl", create, extended_api=True, devices=["npu"])


def staged(c10d: Any, library: str, device: str, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Return a c10d Backend of that name for the device's tensors; blocks until all ranks have joined, as gloo does."""
    import torch

    gloo = c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)
    carrier = c10d.ProcessGroup(store, rank, size)  # only to pass gloo into C++ and get the backend back
    carrier._register_backend(torch.device("cpu"), c10d.ProcessGroup.BackendType.GLOO, gloo)
    torch.ops.torchmigrate_simulated.stage(carrier.boxed(), library)
    return carrier._get_backend(torch.device(device))


def _process_group(c10d: Any, name: str, library: str, device: str) -> type:
    """Return the class torch.distributed.ProcessGroupNCCL (or XCCL), as far as programs use it."""

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
    """Watch process groups being made: gloo shall take CUDA tensors, and finish before the process ends."""
    import torch

    register_backend = c10d.ProcessGroup._register_backend

    def _register_backend(self: Any, device: Any, kind: Any, backend: Any = None) -> None:
        if not _ends_gently:
            _ends_gently.append(atexit.register(_let_gloo_finish))
        register_backend(self, device, kind, backend)
        if device.type == simulated == "cuda" and isinstance(backend, c10d.ProcessGroupGloo):
            # the gloo of a CUDA build takes CUDA tensors
            torch.ops.torchmigrate_simulated.stage(self.boxed(), "gloo")

    shut_down = c10d.ProcessGroup.shutdown

    def shutdown(self: Any) -> None:
        _let_gloo_finish()
        shut_down(self)

    c10d.ProcessGroup._register_backend, c10d.ProcessGroup.shutdown = _register_backend, shutdown


def _let_gloo_finish() -> None:
    """Wait until gloo's threads have dropped their tensors.

    After the interpreter this would kill the process, and while a group is deleted each would wait for the other.
    """
    time.sleep(0.1)
