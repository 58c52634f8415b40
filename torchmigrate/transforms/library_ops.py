"""Operators that are registered for CUDA and for nothing else: they do not exist on other devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site

_CUDA, _ALL = {"cuda", "CUDA"}, {"CompositeExplicitAutograd", "CompositeImplicitAutograd", "default"}
_OTHERS = {"cpu", "CPU", "mps", "MPS", "xpu", "XPU", "npu", "PrivateUse1", *_ALL}
_PLACES = {  # where the device or dispatch key stands, and its keyword
    "torch.library.custom_op": (None, "device_types"), "torch.library.register_kernel": (1, "device_types"),
    "torch.library.impl": (1, "types"), ".register_kernel": (0, "device_types"), ".impl": (2, "dispatch_key"),
}  # fmt: skip


def library_ops(site: Site) -> Iterator[Finding]:
    call = site.call
    if call is None:
        return
    key = site.qualified or f".{getattr(site.ref, 'attr', '')}"
    if _types(call, key) and _types(call, key) <= _CUDA and not _registered_elsewhere(site, _name(call, key)):
        yield site.note()


def _types(call: ast.Call, key: str) -> set[str]:
    """The devices that a registration names; `torch.library.impl(lib, name, "CUDA")` is the older form."""
    position, keyword = _PLACES.get(key, (None, ""))
    given = [k.value for k in call.keywords if k.arg == keyword]
    if position is not None:
        if key == "torch.library.impl" and len(call.args) > 2:
            position = 2
        given += call.args[position : position + 1]
    return {c.value for g in given for c in ast.walk(g) if isinstance(c, ast.Constant) and isinstance(c.value, str)}


def _name(call: ast.Call, key: str) -> str | None:
    """The operator's name, without its namespace."""
    texts = [
        a.value
        for a in call.args[:2]
        if isinstance(a, ast.Constant) and isinstance(a.value, str) and a.value not in _CUDA
    ]
    if texts:
        return texts[0].rpartition("::")[2].partition("(")[0]
    owner = call.func.value if key.startswith(".") and isinstance(call.func, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else None


def _registered_elsewhere(site: Site, name: str | None) -> bool:
    """Whether this file gives the operator a kernel for another device too."""
    for node in ast.walk(site.module.tree):
        if isinstance(node, ast.Call) and node is not site.call:
            texts = {
                c.value
                for a in (*node.args, *(k.value for k in node.keywords))
                for c in ast.walk(a)
                if isinstance(c, ast.Constant)
            }
            names = {str(t).rpartition("::")[2].partition("(")[0] for t in texts} | {
                getattr(getattr(node.func, "value", None), "id", None)
            }
            if texts & _OTHERS and name in names:
                return True
    return False
