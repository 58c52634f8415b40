"""Simulate a device's memory in Python: its allocator and statistics, and CPU tensors over its bytes."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")
_CPU = torch._C.DispatchKey.CPU


def host_storage(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return a CPU storage over the bytes of a device storage, which has to outlive it."""
    construct: Any = torch._C._construct_storage_from_data_pointer
    made: torch.UntypedStorage = construct(storage.data_ptr(), CPU, storage.nbytes())
    return made


def host_view(tensor: Tensor, storage: torch.UntypedStorage) -> Tensor:
    """Return the device tensor's elements as a tensor over that CPU storage."""
    host = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        host = host.conj()
    return torch._neg_view(host) if tensor.is_neg() else host


def host_bytes(storage: torch.UntypedStorage) -> Tensor:
    """Return all bytes of the device storage as a CPU tensor."""
    return torch.empty(0, dtype=torch.uint8).set_(host_storage(storage))


def as_strided(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a view of the device tensor with the shape, the strides and the offset of `like`."""
    view: Tensor = torch.ops.aten.as_strided.default._op_dk(
        _CPU, tensor, like.size(), like.stride(), like.storage_offset()
    )
    return view


def give(tensor: Tensor, source: Tensor, offset: Any, size: Any, stride: Any) -> Tensor:
    """Make `tensor` use the storage of `source` from now on."""
    changed: Tensor = torch.ops.aten.set_.source_Storage_storage_offset._op_dk(
        _CPU, tensor, source.untyped_storage(), offset, size, stride
    )
    return changed


def is_simulated(device: torch.device, name: str) -> bool:
    """Return whether this is the simulated device; raises RuntimeError for another index of its type."""
    if device.type != name:
        return False
    if device.index not in (None, 0):
        raise RuntimeError(
            f"invalid device index ({device} of 1 simulated; without a C++ compiler there is one device)"
        )
    return True


POISON = 0x7F
"""The value of each byte of fresh memory, so that reads of unwritten memory show."""

_EXTENSION = 12  # kDLExtDev of DLDeviceType in dlpack.h (github.com/dmlc/dlpack): torch's PrivateUse1
_DEVICE_TYPE_AT = 8  # offset in a DLManagedTensor, whose first member is a pointer
_WRITABLE = 0x200  # PyBUF_WRITE
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_memoryview = ctypes.pythonapi.PyMemoryView_FromMemory
_memoryview.restype, _memoryview.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


@dataclass
class Stat:
    """A Stat is one statistic of torch.accelerator.memory_stats()."""

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def change(self, by: int) -> None:
        """Count bytes or blocks that were allocated (positive) or freed (negative)."""
        self.current += by
        self.peak = max(self.peak, self.current)
        if by > 0:
            self.allocated += by
        else:
            self.freed -= by

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Return the statistic by pool; there is one pool."""
        return {"all": dict(vars(self))}


@dataclass
class Memory:
    """A device has this memory; `capacity` is in bytes."""

    device: str
    capacity: int
    bytes: Stat = field(default_factory=Stat)
    blocks: Stat = field(default_factory=Stat)
    reserved: Stat = field(default_factory=Stat)
    ooms: int = 0
    pinned: set[int] = field(default_factory=set)
    in_bad_fork: bool = False
    """Whether this process was forked after the device was used, which makes the device unusable."""
    _used: bool = False
    _live: dict[int, tuple[Any, Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # tensors outlive the modules when the interpreter ends
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.in_bad_fork = self._used

    def empty(self, size: Any, dtype: torch.dtype, stride: Any = None, memory_format: Any = None) -> Tensor:
        """Return a device tensor full of poison; raises torch.OutOfMemoryError beyond the capacity."""
        self.check(_span(size, stride) * dtype.itemsize)
        if stride is not None:
            host = torch.empty_strided(size, stride, dtype=dtype)
        else:
            host = torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format)
        storage = host.untyped_storage()
        ctypes.memset(storage.data_ptr(), POISON, storage.nbytes())
        return self.take(host)

    def check(self, wanted: int) -> None:
        """Raise torch.OutOfMemoryError if `wanted` more bytes do not fit; RuntimeError in a bad fork."""
        if self.in_bad_fork:
            raise RuntimeError(
                f"Cannot re-initialize {self.device.upper()} in forked subprocess. To use {self.device.upper()} with "
                "multiprocessing, you must use the 'spawn' start method"
            )
        free = self.capacity - self.bytes.current
        if wanted > free:
            self.ooms += 1
            raise torch.OutOfMemoryError(
                f"{self.device.upper()} out of memory. Tried to allocate {_size_text(wanted)}. Simulated device 0 has "
                f"a total capacity of {_size_text(self.capacity)} of which {_size_text(free)} is free."
            )

    def take(self, host: Tensor) -> Tensor:
        """Turn a CPU tensor into a device tensor with the same bytes; nobody else may use the CPU tensor."""
        nbytes = host.untyped_storage().nbytes()
        self.check(nbytes)
        self._count(nbytes, 1)
        capsule = torch._C._to_dlpack(self._watched(host, functools.partial(self._count, -nbytes, -1)))
        ctypes.c_int32.from_address(_pointer(capsule, b"dltensor") + _DEVICE_TYPE_AT).value = _EXTENSION
        tensor: Tensor = torch._C._from_dlpack(capsule)
        return tensor

    def pin(self, host: Tensor) -> Tensor:
        """Return a pinned copy."""
        copy = host.clone(memory_format=torch.contiguous_format)
        address = copy.data_ptr()
        self.pinned.add(address)
        return self._watched(copy, functools.partial(self.pinned.discard, address))

    def empty_cache(self) -> None:
        """Give back memory that is reserved and not in use."""
        self.reserved.change(self.bytes.current - self.reserved.current)

    def reset_peaks(self) -> None:
        """Reset peaks to what is in use."""
        for stat in (self.bytes, self.blocks, self.reserved):
            stat.peak = stat.current

    def reset_accumulated(self) -> None:
        """Reset the sums of all allocations and deallocations."""
        self.ooms = 0
        for stat in (self.bytes, self.blocks, self.reserved):
            stat.allocated = stat.freed = 0

    def _count(self, nbytes: int, blocks: int) -> None:
        self._used = True
        self.bytes.change(nbytes)
        self.blocks.change(blocks)
        if self.bytes.current > self.reserved.current:
            self.reserved.change(self.bytes.current - self.reserved.current)

    def _watched(self, host: Tensor, on_free: Callable[[], None]) -> Tensor:
        """Return a tensor of the same elements; `on_free` is called when its memory is no longer used."""
        storage = host.untyped_storage()
        count = storage.nbytes() // host.itemsize
        if count == 0:
            on_free()
            return host
        view = _memoryview(storage.data_ptr(), storage.nbytes(), _WRITABLE)

        def gone(reference: Any) -> None:
            del self._live[id(reference)]
            on_free()

        reference = weakref.ref(view, gone)
        self._live[id(reference)] = reference, host
        flat = torch.frombuffer(view, dtype=host.dtype, count=count)
        return flat.as_strided(host.size(), host.stride(), host.storage_offset())


def _size_text(nbytes: int) -> str:
    """Return a size in words, as format_size of c10/cuda/CUDACachingAllocator.cpp."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"


def _span(size: Sequence[int], stride: Sequence[int] | None) -> int:
    """Return how many elements a tensor spans, from the first to the last."""
    if 0 in size:
        return 0
    if stride is None:
        return math.prod(size)
    return 1 + sum((n - 1) * step for n, step in zip(size, stride))
