"""Run operators on the device: read their schemas, lower arguments to the CPU, raise results to the device."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..torch_c import unsupported
from .generators import Generators
from .memory import CPU, Memory, as_strided, give, host_storage, host_view, is_simulated

_CPU = torch._C.DispatchKey.CPU
# The CPU kernels of these read no bytes, and keep their argument's dispatch keys: they run on device tensors directly.
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
    """An overload is one form of an operator, such as "aten::add.Tensor"; sets hold names of arguments."""

    name: str
    run: Callable[..., Any]
    """Runs the CPU kernel, on CPU tensors."""
    arguments: tuple[str, ...]
    """The positional arguments."""
    written: frozenset[str]
    out: frozenset[str]
    no_numbers: frozenset[str]
    """Tensor arguments for which Python may not pass a number; C++ may, and the number arrives here."""
    metadata: bool
    checked: bool
    """Whether torch checks that all tensors are on one device; else the operator does, and may accept a CPU scalar."""
    indexing: bool
    random: bool
    takes_generator: bool
    """Whether there is an argument `generator`."""

    @classmethod
    def of(cls, op: Any, no_check: frozenset[str]) -> Overload:
        """Read the overload `op`, an OpOverload of torch's."""
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
        """Return the operator's name in torch's messages: "add"."""
        return self.name.split("::")[1].split(".")[0]


def overload(name: str) -> Any:
    """Return torch's OpOverload of "conv2d" or "pow.Scalar"."""
    operator, _, variant = name.partition(".")
    return getattr(getattr(torch.ops.aten, operator), variant or "default")


def _cpu_kernel(op: Any, name: str) -> Callable[..., Any]:
    # torch crashes if it is called for a key that has a composite and no kernel
    direct = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
    return functools.partial(op._op_dk, _CPU) if direct else op


def _no_numbers(name: str, arguments: Any) -> frozenset[str]:
    if torch._C._should_allow_numbers_as_tensors(name.split("::")[1].split(".")[0]):
        return frozenset()
    return frozenset(a.name for a in arguments if str(a.type) == "Tensor")


@dataclass
class Device:
    """A simulated device has a name, memory and random numbers, and counts of what ran on it."""

    name: str
    memory: Memory
    generators: Generators
    no_check: frozenset[str]
    counts: Counter[str] = field(default_factory=Counter)
    random_kernels: int = 0
    _overloads: dict[Any, Overload] = field(default_factory=dict)

    def kernel(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an operator; the kernel of all operators that have none of their own."""
        overload = self._overloads.get(op)
        if overload is None:
            overload = self._overloads[op] = Overload.of(op, self.no_check)
        self.counts[overload.name] += 1
        if overload.metadata:
            return overload.run(*args, **kwargs)
        try:
            return self._launch(overload, args, kwargs)
        except Exception as error:
            unsupported.tell(type(error).__name__, str(error))
            # frames keep tensors alive, tracebacks keep frames, and torch's backward thread keeps the last exception
            del args, kwargs
            raise error.with_traceback(None) from None

    def _launch(self, overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return self._run(Call(self, overload), args, kwargs)
        except RuntimeError as error:
            if not overload.out or "storage that is not resizable" not in str(error):
                raise
            # an out= argument has the wrong size: torch has warned, and would now resize its memory
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
        """Return whether a torch.device is this one; raises RuntimeError for another index of its type."""
        return is_simulated(value, self.name)


class Call:
    """A call runs an operator; with `fresh_out`, out= arguments are replaced even if they have elements."""

    def __init__(self, device: Device, overload: Overload, fresh_out: bool = False) -> None:
        self.device, self.overload, self.fresh_out = device, overload, fresh_out
        self.pairs: list[tuple[Tensor, Tensor]] = []  # (device tensor, CPU tensor over its bytes)
        self.storages: dict[int, tuple[torch.UntypedStorage, Tensor]] = {}

    def lower(self, value: Any, name: str) -> Any:
        """Convert an argument for the CPU kernel; raises RuntimeError or IndexError for one on a wrong device."""
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
        """Return a number as a tensor, of the dtype that it has beside the tensors lowered so far."""
        beside = [host for _, host in self.pairs]
        return torch.tensor(value, dtype=torch.result_type(beside[0], value) if beside else None)

    def _lower_tensor(self, tensor: Tensor, name: str) -> Tensor:
        if not self.device.is_mine(tensor.device):
            self._check(tensor, name)
            return tensor
        for device, host in self.pairs:
            if device is tensor:
                return host
        # An empty out= argument is about to be resized, and no allocator could resize our bytes.
        fresh = name in self.overload.out and (self.fresh_out or tensor.numel() == 0)
        host = torch.empty(0, dtype=tensor.dtype) if fresh else self._alias(tensor)
        self.pairs.append((tensor, host))
        return host

    def _alias(self, tensor: Tensor) -> Tensor:
        """Return a CPU view, one CPU storage per device storage, so that kernels still see overlapping memory."""
        storage = tensor.untyped_storage()
        known = self.storages.get(storage._cdata)
        if known is None:
            known = self.storages[storage._cdata] = (host_storage(storage), tensor)
        return host_view(tensor, known[0])

    def _check(self, tensor: Tensor, name: str) -> None:
        """Raise the error that torch gives for a tensor on another device, unless the operator accepts it."""
        overload, here = self.overload, f"{self.device.name}:0"
        if tensor.is_cpu:
            if tensor.dim() == 0 and not overload.checked and name not in overload.written:
                return  # TensorIterator accepts a CPU scalar
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
        """Give out= arguments that the kernel resized, or that were replaced, their new memory."""
        for device, host in self.pairs:
            if _placed(host) == _placed(device):
                continue
            if self._base(host) is None:
                give(device, self.device.memory.take(host), 0, host.size(), host.stride())
            else:
                give(device, device, host.storage_offset(), host.size(), host.stride())

    def _base(self, host: Tensor) -> Tensor | None:
        """Return the argument that owns the bytes of a CPU tensor, or None."""
        address = host.untyped_storage()._cdata
        return next((tensor for storage, tensor in self.storages.values() if storage._cdata == address), None)

    def raise_(self, result: Any) -> Any:
        """Convert a result for the device: an argument itself, a view of one, or the result's own bytes."""
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
