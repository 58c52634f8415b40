"""Give the device torch.autocast, with the policy for each operator that torch's own header lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ..torch_c.composites import Library
from .calls import overload

_KEY = "AutocastPrivateUse1"
_HEADER = Path("include") / "ATen" / "autocast_mode.h"
_KEYS = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))
Policy = Callable[..., Any]


def register(device: str) -> list[Any]:
    """Register autocast while the returned libraries live; raises FileNotFoundError without torch's headers."""
    everything, aten = Library("_", "IMPL"), Library("aten", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, _KEY)
    header = (Path(torch.__file__).parent / _HEADER).read_text(encoding="utf-8")
    for macro, policy in _POLICIES.items():
        for name in _operators(header, macro):
            aten.impl(name, policy(device, overload(name)), _KEY)
    for name, (target, position) in _NORMS.items():
        aten.impl(name, _norm(device, overload(name), overload(target), position), _KEY)
    return [everything, aten]


def _operators(header: str, macro: str) -> list[str]:
    r"""Return the operators of a macro: its lines `_(conv2d) \` and `_(pow, Scalar) \` as "conv2d" and "pow.Scalar"."""
    lines = re.search(rf"#define {macro}\(_\)((?:.*\\\n)+.*)", header)
    if lines is None:
        raise ValueError(f"torch {torch.__version__}: {_HEADER} does not define {macro}")
    found = re.findall(r"\b_\((\w+)(?:, (\w+))?\)", lines[1])
    return [f"{name}.{variant}" if variant else name for name, variant in found]


def _eligible(value: Any, device: str) -> bool:
    """Return whether autocast casts a value: a device's float but float64 (cached_cast in autocast_mode.cpp)."""
    return (
        isinstance(value, Tensor)
        and value.device.type == device
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(device: str, dtype: torch.dtype, values: Any) -> Any:
    return tree_map(lambda value: value.to(dtype) if _eligible(value, device) else value, values)


def _lower(device: str, op: Any) -> Policy:
    def lower(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            args, kwargs = _cast(device, torch.get_autocast_dtype(device), (args, kwargs))
            return op(*args, **kwargs)

    return lower


def _float32(device: str, op: Any) -> Policy:
    def float32(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            args, kwargs = _cast(device, torch.float32, (args, kwargs))
            return op(*args, **kwargs)

    return float32


def _float32_result(device: str, op: Any) -> Policy:
    """Make the operator compute in float32, unless a dtype is given; the arguments keep theirs."""
    names = [argument.name for argument in op._schema.arguments]
    position = names.index("dtype") if "dtype" in names else len(names)

    def float32_result(*args: Any, **kwargs: Any) -> Any:
        given = len(args) > position or kwargs.get("dtype") is not None
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            if given or not _eligible(args[0], device):
                return op(*args, **kwargs)
            return op(*args, **{**kwargs, "dtype": torch.float32})

    return float32_result


def _norm(device: str, op: Any, target: Any, position: int) -> Policy:
    """Call the variant of a norm that takes a dtype, for one that does not."""

    def norm(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            if not _eligible(args[0], device):
                return op(*args, **kwargs)
            defaults = [argument.default_value for argument in op._schema.arguments]
            return target(*args, *defaults[len(args) : position], dtype=torch.float32)

    return norm


def _promote(device: str, op: Any) -> Policy:
    def promote(*args: Any, **kwargs: Any) -> Any:
        given = [value.dtype for value in tree_leaves((args, kwargs)) if _eligible(value, device)]
        dtype = torch.float32 if torch.float32 in given else torch.get_autocast_dtype(device)
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            args, kwargs = _cast(device, dtype, (args, kwargs))
            return op(*args, **kwargs)

    return promote


_POLICIES: dict[str, Callable[[str, Any], Policy]] = {
    "AT_FORALL_LOWER_PRECISION_FP": _lower,
    "AT_FORALL_FP32": _float32,
    "AT_FORALL_FP32_SET_OPT_DTYPE": _float32_result,
    "AT_FORALL_PROMOTE": _promote,
}
# AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE: operator -> the variant with a dtype, and the number of arguments before it.
_NORMS = {"norm.Scalar": ("norm.ScalarOpt_dtype", 2), "norm.ScalarOpt_dim": ("norm.ScalarOpt_dim_dtype", 4)}
