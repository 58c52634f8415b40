"""What has to be known of an operator to run it, read off its schema and tags."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .generators import Generators
from .memory import CPU, Memory, as_strided, give, host_storage, host_view, is_simulated

_CPU = torch._C.DispatchKey.CPU
# Their CPU kernels read no bytes, and take over their argument's keys: they run on the device's tensors as they are.
_METADATA = frozenset(
    {
        *("aten::as_strided", "aten::view", "aten::_reshape_alias", "aten::unfold"),
        *("aten::view_as_real", "aten::view_as_complex", "aten::_local_scalar_dense", "aten::is_set_to"),
        *("aten::set_", "aten::set_.source_Tensor", "aten::set_.source_Storage"),
        "aten::set_.source_Storage_storage_offset",
    }
)
_INDEXING = ("aten::index", "aten::_index_put_impl_", "aten::_unsafe_index")


@dataclass(frozen=True)
class Overload:
    """One of an operator's overloads: "aten::add.Tensor". Sets hold names of arguments."""

    name: str
    run: Callable[..., Any]
    """On CPU tensors."""
    arguments: tuple[str, ...]
    """The positional ones."""
    written: frozenset[str]
    out: frozenset[str]
    no_numbers: frozenset[str]
    """Tensors for which Python may pass no number, though C++ may, and then it arrives here as one."""
    metadata: bool
    checked: bool
    """torch checks that its tensors are on one device; else it does so itself, and may let a CPU scalar in."""
    indexing: bool
    random: bool
    takes_generator: bool
    """By that name."""

    @classmethod
    def of(cls, op: Any, no_check: frozenset[str]) -> Overload:
        """`op` is torch's OpOverload."""
        name, arguments = op.name(), op._schema.arguments
        written = {a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write}
        return cls(
            name=name,
            run=_cpu_kernel(op, name),
            arguments=tuple(a.name for a in arguments if not a.kwarg_only),
            written=frozenset(written),
            out=frozenset(a.name for a in arguments if a.kwarg_only and a.name in written),
            no_numbers=_no_numbers(name, arguments),
            metadata=name in _METADATA,
            checked=name not in no_check,
            indexing=name.startswith(_INDEXING),
            random=torch.Tag.nondeterministic_seeded in op.tags,
            takes_generator=any(a.name == "generator" for a in arguments),
        )

    @property
    def method(self) -> str:
        """As torch names it in messages: "add"."""
        return self.name.split("::")[1].split(".")[0]


def overload(name: str) -> Any:
    """torch's OpOverload of "conv2d" or "pow.Scalar"."""
    operator, _, variant = name.partition(".")
    return getattr(getattr(torch.ops.aten, operator), variant or "default")


def _cpu_kernel(op: Any, name: str) -> Callable[..., Any]:
    # Called for a key that has no kernel of its own, but a composite, torch crashes.
    direct = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
    return functools.partial(op._op_dk, _CPU) if direct else op


def _no_numbers(name: str, arguments: Any) -> frozenset[str]:
    if torch._C._should_allow_numbers_as_tensors(name.split("::")[1].split(".")[0]):
        return frozenset()
    return frozenset(a.name for a in arguments if str(a.type) == "Tensor")


@dataclass
class Device:
    """Its name, memory and random numbers; what has run on it."""

    name: str
    memory: Memory
    generators: Generators
    no_check: frozenset[str]
    counts: Counter[str] = field(default_factory=Counter)
    random_kernels: int = 0
    _overloads: dict[Any, Overload] = field(default_factory=dict)

    def kernel(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """The kernel of all operators that have none of their own."""
        overload = self._overloads.get(op)
        if overload is None:
            overload = self._overloads[op] = Overload.of(op, self.no_check)
        self.counts[overload.name] += 1
        if overload.metadata:
            return overload.run(*args, **kwargs)
        try:
            return self._launch(overload, args, kwargs)
        except RuntimeError as error:
            # Frames hold on to tensors, tracebacks to frames, and torch's backward thread to the last exception.
            del args, kwargs
            raise error.with_traceback(None) from None

    def _launch(self, overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return self._run(Call(self, overload), args, kwargs)
        except RuntimeError as error:
            if not overload.out or "storage that is not resizable" not in str(error):
                raise
            # An out= argument of the wrong size: torch has warned, and would now give it other memory.
            return self._run(Call(self, overload, fresh_out=True), args, kwargs)

    def _run(self, call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        overload = call.overload
        host_args = [call.lower(value, name) for value, name in zip(args, overload.arguments)]
        host_kwargs = {name: call.lower(value, name) for name, value in kwargs.items()}
        if overload.random:
            result = self._run_random(overload, host_args, host_kwargs)
        else:
            result = overload.run(*host_args, **host_kwargs)
        if overload.written:
            call.write_back()
        return call.raise_(result)

    def _run_random(self, overload: Overload, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self.random_kernels += 1
        if not overload.takes_generator:
            with self.generators.borrowed():
                return overload.run(*args, **kwargs)
        given = dict(zip(overload.arguments, args), **kwargs).get("generator")
        if given is None:
            kwargs["generator"] = self.generators.default
        return overload.run(*args, **kwargs)

    def is_mine(self, value: torch.device) -> bool:
        """Whether this is the device. RuntimeError for another one of its type."""
        return is_simulated(value, self.name)


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
