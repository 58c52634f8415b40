"""One call of one operator: its arguments as the CPU's kernel takes them, and what comes back as the device's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .host import CPU, as_strided, give, host_storage, host_view
from .overloads import Overload

if TYPE_CHECKING:
    from .device import Device


class Call:
    """`fresh_out`: out= arguments are replaced even where they have elements."""

    def __init__(self, device: Device, overload: Overload, fresh_out: bool = False) -> None:
        self.device, self.overload, self.fresh_out = device, overload, fresh_out
        self.pairs: list[tuple[Tensor, Tensor]] = []  # (device tensor, the CPU tensor over its bytes)
        self.storages: dict[int, tuple[torch.UntypedStorage, Tensor]] = {}

    def lower(self, value: Any, name: str) -> Any:
        """An argument as the CPU's kernel takes it. RuntimeError or IndexError for a tensor of the wrong device."""
        if isinstance(value, Tensor):
            return self._lower_tensor(value, name)
        if isinstance(value, (list, tuple)):
            return [self.lower(item, name) for item in value]
        if isinstance(value, torch.device):
            return CPU if self.device.is_mine(value) else value
        if isinstance(value, torch._C.Generator):
            return self.device.generators.checked(value)
        if name in self.overload.no_numbers and isinstance(value, (int, float, complex)):
            return self._number(value)
        return value

    def _number(self, value: complex) -> Tensor:
        """Of the dtype that the number takes on beside the tensors seen so far."""
        beside = [host for _, host in self.pairs]
        return torch.tensor(value, dtype=torch.result_type(beside[0], value) if beside else None)

    def _lower_tensor(self, tensor: Tensor, name: str) -> Tensor:
        if not self.device.is_mine(tensor.device):
            self._check(tensor, name)
            return tensor
        for device, host in self.pairs:
            if device is tensor:
                return host
        # An empty out= argument is about to be resized, and our bytes belong to no allocator that could do so.
        fresh = name in self.overload.out and (self.fresh_out or tensor.numel() == 0)
        host = torch.empty(0, dtype=tensor.dtype) if fresh else self._alias(tensor)
        self.pairs.append((tensor, host))
        return host

    def _alias(self, tensor: Tensor) -> Tensor:
        """One CPU storage per device storage: so the kernels' own checks for overlap still work."""
        storage = tensor.untyped_storage()
        known = self.storages.get(storage._cdata)
        if known is None:
            known = self.storages[storage._cdata] = (host_storage(storage), tensor)
        return host_view(tensor, known[0])

    def _check(self, tensor: Tensor, name: str) -> None:
        """A tensor of another device."""
        overload, here = self.overload, f"{self.device.name}:0"
        if tensor.is_cpu:
            if tensor.dim() == 0 and not overload.checked and name not in overload.written:
                return  # a scalar that TensorIterator lets in
            if overload.indexing and name == "indices":
                return  # CUDA takes CPU indices
            if overload.indexing and name == "self":
                raise IndexError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        if not overload.checked:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {here} and "
                f"{tensor.device}! (when checking argument {name} in {overload.method})"
            )
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but got {name} is on {tensor.device}, different from "
            f"other tensors on {here} (when checking argument in method wrapper_{self.device.name}_{overload.method})"
        )

    def write_back(self) -> None:
        """out= arguments that the kernel resized, or that were replaced."""
        for device, host in self.pairs:
            if _placed(host) == _placed(device):
                continue
            if self._base(host) is None:
                give(device, self.device.memory.take(host), 0, host.size(), host.stride())
            else:
                give(device, device, host.storage_offset(), host.size(), host.stride())

    def _base(self, host: Tensor) -> Tensor | None:
        """The argument whose bytes these are."""
        address = host.untyped_storage()._cdata
        return next((tensor for storage, tensor in self.storages.values() if storage._cdata == address), None)

    def raise_(self, result: Any) -> Any:
        """What the kernel returned, on the device: an argument itself, a view of one, or the result's own bytes."""
        if isinstance(result, Tensor):
            return self._raise_tensor(result)
        if isinstance(result, (list, tuple)):
            return type(result)(self.raise_(item) for item in result)
        return result

    def _raise_tensor(self, host: Tensor) -> Tensor:
        for device, alias in self.pairs:
            if alias is host:
                return device
        if not host.is_cpu:
            return host
        if host.layout != torch.strided or host.is_quantized:
            kind = host.dtype if host.is_quantized else host.layout
            raise NotImplementedError(f"the simulated device has no {kind} tensors ({self.overload.name})")
        base = self._base(host)
        return self.device.memory.take(host) if base is None else as_strided(base, host)


def _placed(tensor: Tensor) -> Any:
    return tensor.data_ptr(), tensor.shape, tensor.stride()
