"""`torch.cuda.FloatTensor` and its kin: constructors, `.type(...)`, aliases, type strings (T12, T13).

`accel.tensor_type(torch.float32)` is the very same type on CUDA, so whatever code does with it keeps its meaning there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site
from torchmigrate.scope import chain_of

DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8", "Char": "int8",
    "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool",
}  # fmt: skip


def tensor_type(site: Site) -> Iterator[Finding]:
    if isinstance(site.ref, ast.Attribute) and site.ref.attr == "type":
        yield from _type_alias(site)
        return
    dtype = _dtype(site)
    if dtype is None:
        yield site.note("a CUDA tensor type without a counterpart elsewhere")
        return
    up = site.module.parent(site.ref)
    owner = up if isinstance(up, ast.Call) and up.func is not site.ref else None
    last = (chain_of(owner.func) or getattr(owner.func, "attr", "")).rpartition(".")[2] if owner else ""
    if owner and last == "type" and isinstance(owner.func, ast.Attribute) and len(owner.args) == 1 and not owner.keywords:
        yield site.rewrite("$x.type($t)", f"accel.cast($x, torch.{dtype})", owner) or site.note()
    elif owner and last == "set_default_tensor_type":
        yield site.rewrite("torch.set_default_tensor_type($t)", f"accel.set_default_tensor_type(torch.{dtype})", owner) or site.note()
    elif isinstance(site.ref, ast.Constant):
        yield from _type_string(site, up, dtype)
    elif site.qualified and site.qualified.startswith("torch.cuda.sparse."):
        found = site.rewrite(f"{site.qualified}($$args)", "accel.sparse_tensor($$args)") if dtype == "float32" else None
        yield found or site.note("a sparse CUDA tensor type")
    elif site.call is not None and site.call.func is site.ref:
        yield from _constructed(site, site.call, dtype)
    elif isinstance(up, (ast.arg, ast.AnnAssign)) and getattr(up, "annotation", None) is site.ref:
        return
    else:
        yield site.replace(site.ref, f"accel.tensor_type(torch.{dtype})")


def _dtype(site: Site) -> str | None:
    text = site.ref.value if isinstance(site.ref, ast.Constant) else site.qualified
    name = str(text).rpartition(".")[2].removesuffix("Tensor")
    return DTYPES.get(name)


def _constructed(site: Site, call: ast.Call, dtype: str) -> Iterator[Finding]:
    """A list or tuple display is data; anything else may be a size, and only the type itself knows (T13)."""
    data = len(call.args) == 1 and not call.keywords and isinstance(call.args[0], (ast.List, ast.ListComp))
    if data:
        found = site.rewrite(f"{site.qualified}($data)", f"torch.tensor($data, dtype=torch.{dtype}, device=accel.device())")
    else:
        found = site.rewrite(f"{site.qualified}($$args)", f"accel.tensor_type(torch.{dtype})($$args)")
    yield found or site.note()


def _type_string(site: Site, up: ast.AST | None, dtype: str) -> Iterator[Finding]:
    match up:
        case ast.Compare():
            yield site.note("compared with a type string: ask for `.dtype` and `accel.is_accelerated(x)`", blocks=True)
        case ast.Assign() | ast.IfExp() | ast.Return() | ast.keyword():
            yield site.replace(site.ref, f"accel.tensor_type(torch.{dtype})")


def _type_alias(site: Site) -> Iterator[Finding]:
    """`x.type(Tensor)` where `Tensor` is one of the types above under another name: `.type` knows no MPS or NPU type."""
    call = site.call
    if call is None or len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Name):
        return
    found = site.scope.find(call.args[0].id)
    values = [b.value for b in found[1] if b.value is not None] if found else []
    if any(_is_type_idiom(site, value) for value in values):
        yield site.rewrite("$x.type($t)", "accel.cast($x, $t)") or site.note()


def _is_type_idiom(site: Site, value: ast.expr) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute):
            name = chain_of(node) or ""
            resolved = site.module.resolver.dotted(name, site.module.scopes.module) or ""
            if resolved.startswith("torch.cuda.") and resolved.endswith("Tensor"):
                return True
            if name == f"{site.module.names['accel']}.tensor_type":
                return True
    return False
