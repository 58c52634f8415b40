"""Register all kernels, and implement those that cannot be the CPU's on the same bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..torch_c.composites import Library
from ..torch_c.operators import facts
from .calls import Device, overload
from .memory import give, host_bytes, host_storage, host_view

_KEY = "PrivateUse1"
# torch's composites of these pick a kernel that only a backend's own build has; so the CPU's kernel runs as one step
_WHOLE = ("convolution", "convolution_backward")


def register(device: Device) -> list[Any]:
    """Register the kernels; they last as long as the libraries that are returned."""
    everything, aten = Library("_", "IMPL"), Library("aten", "IMPL")
    everything.fallback(device.kernel, _KEY)
    for name, kernel in Kernels(device).by_name().items():
        aten.impl(name, kernel, _KEY)
    # Structured operators would run as a composite, which allocates the result and then calls the out= variant; run the
    # CPU's kernel as one step instead.
    for name in (*_WHOLE, *(name.split("::")[1] for name in sorted(facts().structured))):
        aten.impl(name, functools.partial(device.kernel, overload(name)), _KEY)
    memory = device.memory
    aten.impl("_pin_memory", lambda tensor, device=None: memory.pin(tensor), "CPU")
    aten.impl("is_pinned", lambda tensor, device=None: tensor.untyped_storage().data_ptr() in memory.pinned, "CPU")
    return [everything, aten]


class Kernels:
    """The kernels for memory and copies are named and called as the operators are."""

    def __init__(self, device: Device) -> None:
        self.device, self.memory = device, device.memory

    def by_name(self) -> dict[str, Callable[..., Any]]:
        """Return the kernels by their overloads' names."""
        kernels: dict[str, Callable[..., Any]] = {
            "empty.memory_format": self.empty,
            "empty_strided": self.empty_strided,
            "resize_": self.resize_,
            "copy_": self.copy_,
            "_copy_from": self.copy_from,
            "_to_copy": self.to_copy,
        }
        counted = {name: self._counted(f"aten::{name}", kernel) for name, kernel in kernels.items()}
        return {
            **counted,
            "record_stream": lambda tensor, stream: None,
            "_efficientzerotensor": lambda size, **options: torch.zeros(size, **options),
        }

    def _counted(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.device.counts[name] += 1
            return kernel(*args, **kwargs)

        return counted

    def empty(self, size: Any, *, dtype: Any = None, memory_format: Any = None, **options: Any) -> Tensor:
        """Return a tensor full of poison, contiguous in `memory_format`."""
        self._check(options)
        return self.memory.empty(size, dtype or torch.get_default_dtype(), memory_format=memory_format)

    def empty_strided(self, size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
        """Return a tensor full of poison."""
        self._check(options)
        return self.memory.empty(size, dtype or torch.get_default_dtype(), stride)

    def _check(self, options: dict[str, Any]) -> None:
        if options.get("pin_memory"):
            raise RuntimeError("Only dense CPU tensors can be pinned")
        if options.get("device") is not None:
            self.device.is_mine(options["device"])

    def resize_(self, tensor: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
        """Resize in place if the bytes suffice; otherwise move the existing bytes to new memory."""
        wanted = torch.empty(
            size, dtype=tensor.dtype, device="meta", memory_format=memory_format or torch.contiguous_format
        )
        source, offset, storage = tensor, tensor.storage_offset(), tensor.untyped_storage()
        needed = (offset + wanted.numel()) * tensor.itemsize
        if needed > storage.nbytes():
            source = self.memory.empty((needed,), torch.uint8)
            host_bytes(source.untyped_storage())[: storage.nbytes()].copy_(host_bytes(storage))
        return give(tensor, source, offset, wanted.size(), wanted.stride())

    def copy_(self, to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        """Copy between the host and the device, or within the device; the copy is complete on return."""
        self._host(to).copy_(self._host(source))
        return to

    def copy_from(self, source: Tensor, to: Tensor, non_blocking: bool = False) -> Tensor:
        """Copy with the arguments of `copy_` in the other order."""
        return self.copy_(to, source)

    def to_copy(self, tensor: Tensor, *, device: Any = None, non_blocking: bool = False, **options: Any) -> Tensor:
        """Copy a tensor for `tensor.to()`; torch's own kernel may need an allocator that only C++ can provide."""
        host: Tensor = torch.ops.aten._to_copy(self._host(tensor), **{**options, "pin_memory": None})
        if device is None or self.device.is_mine(device):
            return self.memory.take(host)
        return self.memory.pin(host) if non_blocking and device.type == "cpu" else host.to(device)

    def _host(self, tensor: Tensor) -> Tensor:
        if tensor.is_meta:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if tensor.is_cpu:
            return tensor
        if not self.device.is_mine(tensor.device):
            raise RuntimeError(f"a copy between {tensor.device} and {self.device.name}:0 is not supported")
        return host_view(tensor, host_storage(tensor.untyped_storage()))
