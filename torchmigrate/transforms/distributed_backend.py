"""`"nccl"` where a backend is chosen: `accel.dist_backend()` is literally "nccl" on CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.edits import Finding, Safety
from torchmigrate.module import Site
from torchmigrate.scope import chain_of
from torchmigrate.transforms import device_default

_BACKEND = re.compile(r"(^|_)backend$|dist_url_backend", re.I)


def distributed_backend(site: Site) -> Iterator[Finding]:
    node = site.node
    assert isinstance(node, ast.Constant)
    plain = node.value in ("nccl", "NCCL")
    template = "accel.dist_backend()"
    outer, up = node, site.parent
    while isinstance(up, (ast.IfExp, ast.BoolOp)) and not (isinstance(up, ast.IfExp) and up.test is outer):
        outer, up = up, site.module.parent(up)  # type: ignore[assignment]
    match up:
        case ast.Call(func, args) if outer in args:
            last = (chain_of(func) or "").rpartition(".")[2]
            if last in ("init_process_group", "new_group") and plain:
                yield site.replace(node, template)
        case ast.keyword(arg):
            call = site.module.parent(up)
            yield from _keyword(site, node, call, arg or "", plain)
        case ast.Assign() | ast.AnnAssign():
            target = up.targets[0] if isinstance(up, ast.Assign) else up.target
            name = getattr(target, "id", getattr(target, "attr", ""))
            if plain and _BACKEND.search(name):
                yield device_default.at_import_checked(site, node, template)
        case ast.Compare(_, [ast.Eq() | ast.NotEq()], _) if plain and _rewritten_elsewhere(site):
            yield site.replace(node, template)
        case ast.arguments():
            yield site.note("a parameter's default is nccl: ask accel.dist_backend() inside the function")
        case ast.Dict() if any(v is outer for v in up.values):
            yield site.replace(node, template, Safety.UNSAFE)


def _keyword(site: Site, node: ast.Constant, call: ast.AST | None, arg: str, plain: bool) -> Iterator[Finding]:
    last = (chain_of(call.func) or getattr(call.func, "attr", "")).rpartition(".")[2] if isinstance(call, ast.Call) else ""
    if not plain:
        if arg == "backend" and last in ("init_process_group", "new_group"):
            yield site.note("a composed backend: name one per device type for the other accelerators (xccl, hccl, gloo)")
    elif _BACKEND.search(arg):
        yield site.replace(node, "accel.dist_backend()")
    elif arg == "default" and isinstance(call, ast.Call) and "backend" in ast.unparse(call):
        yield device_default.at_import_checked(site, node, "accel.dist_backend()")


def _rewritten_elsewhere(site: Site) -> bool:
    """`backend == "nccl"`: both ends change together, so only where this file chooses the backend."""
    text = site.module.source.text
    return bool(re.search(r"backend['\"]?,?\s*(=|default\s*=)\s*['\"](nccl|NCCL)['\"]|dist_backend\(\)", text))
