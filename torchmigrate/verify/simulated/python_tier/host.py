"""CPU tensors over the device's bytes, and what is changed of a device tensor without touching them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")
_CPU = torch._C.DispatchKey.CPU


def host_storage(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A CPU storage over the bytes of the device's, which has to outlive it."""
    construct: Any = torch._C._construct_storage_from_data_pointer
    made: torch.UntypedStorage = construct(storage.data_ptr(), CPU, storage.nbytes())
    return made


def host_view(tensor: Tensor, storage: torch.UntypedStorage) -> Tensor:
    """The device tensor's elements in that CPU storage."""
    host = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        host = host.conj()
    return torch._neg_view(host) if tensor.is_neg() else host


def host_bytes(storage: torch.UntypedStorage) -> Tensor:
    """All of the device storage's bytes."""
    return torch.empty(0, dtype=torch.uint8).set_(host_storage(storage))


def as_strided(tensor: Tensor, like: Tensor) -> Tensor:
    """A view of the device tensor with the shape, the strides and the offset of `like`."""
    view: Tensor = torch.ops.aten.as_strided.default._op_dk(
        _CPU, tensor, like.size(), like.stride(), like.storage_offset()
    )
    return view


def give(tensor: Tensor, source: Tensor, offset: Any, size: Any, stride: Any) -> Tensor:
    """`tensor` has `source`'s storage from now on."""
    changed: Tensor = torch.ops.aten.set_.source_Storage_storage_offset._op_dk(
        _CPU, tensor, source.untyped_storage(), offset, size, stride
    )
    return changed


def is_simulated(device: torch.device, name: str) -> bool:
    """Whether it is the simulated device. RuntimeError for another one of its type: there is but one."""
    if device.type != name:
        return False
    if device.index not in (None, 0):
        raise RuntimeError(
            f"invalid device index ({device} of 1 simulated; without a C++ compiler there is one device)"
        )
    return True
