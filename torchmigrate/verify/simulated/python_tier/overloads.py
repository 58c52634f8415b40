"""What has to be known of an operator to run it, read off its schema and tags."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

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
