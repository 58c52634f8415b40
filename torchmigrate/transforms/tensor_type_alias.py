"""`x.type(Tensor)` where `Tensor` is a CUDA tensor type under another name: `.type` knows no MPS or NPU type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site
from torchmigrate.own_helper import helper_function
from torchmigrate.scan import TYPE
from torchmigrate.scope import chain_of


def aliased(site: Site) -> Iterator[Finding]:
    call = site.call
    if (
        call is None
        or len(call.args) != 1
        or call.keywords
        or not any(_is_cuda_type(site, v) for v in _values(site, call.args[0]))
    ):
        return
    if site.qualified and isinstance(call.args[0], ast.IfExp):
        return  # the type's own rule rewrites it
    if site.qualified:
        yield site.note("a CUDA tensor type may arrive here under another name: the helper's function wants the dtype")
    else:
        yield site.rewrite("$x.type($t)", "accel.cast($x, $t)") or site.note()


def _values(site: Site, node: ast.expr) -> list[ast.expr]:
    """All that a name, or an attribute of `self`, is given here."""
    match node:
        case ast.Name(name):
            found = site.scope.find(name)
            return [b.value for b in found[1] if b.value is not None] if found else []
        case ast.Attribute(ast.Name("self" | "cls"), name):
            owner = site.scope.enclosing_class()
            assigns = [n for n in ast.walk(owner.node) if isinstance(n, ast.Assign)] if owner else []
            return [
                a.value
                for a in assigns
                if any(isinstance(t, (ast.Attribute, ast.Name)) and _name(t) == name for t in a.targets)
            ]
        case ast.IfExp():
            return [node]
    return []


def _name(target: ast.Attribute | ast.Name) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr


def _is_cuda_type(site: Site, value: ast.expr) -> bool:
    for node in (n for part in _branches(value) for n in ast.walk(part)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TYPE.fullmatch(node.value):
            return True
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = chain_of(node) or ""
            resolved = site.module.resolver.dotted(name, site.scope) or ""
            if resolved.startswith("torch.cuda.") and resolved.endswith("Tensor") and ".sparse." not in resolved:
                return True
            if helper_function(site.module, node) == "tensor_type":
                return True
    return False


def _branches(value: ast.expr) -> list[ast.expr]:
    """What a choice may give; a tensor that is made of such a type is no type."""
    if isinstance(value, ast.IfExp):
        return [*_branches(value.body), *_branches(value.orelse)]
    if isinstance(value, ast.Call):
        return [value.func] if (chain_of(value.func) or "").endswith(".tensor_type") else []
    return [value]
