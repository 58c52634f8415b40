"""Integers in device positions: `.to(0)`, `.to(rank)`, `torch.device(0)`, `device=0` mean a CUDA index (T2)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.spelling import asks_accelerator
from torchmigrate.semantic.torch_use import uses_torch

_INDEX = re.compile(r"^(local_|global_|dist_)?rank$|(^|_)(gpu|cuda|device)_?(id|idx|index)$|^(gpu|cuda)$")
_SURE = re.compile(r"^(local_)?rank$|gpu_?id$|device_?(id|index)$")


def device_index(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None:
        return
    if site.qualified == "torch.device":
        if len(call.args) == 1 and not call.keywords and index_safety(call.args[0]):
            if any(asks_accelerator(site.module, each) for each in (".is_available", ".device_count")):
                yield site.left("a file that asks torch.accelerator means whichever there is")
                return
            found = site.rewrite("torch.device($index)", "accel.device($index)", None, index_safety(call.args[0]))
            yield from filter(None, (found,))
        return
    if not uses_torch(site.module):
        return
    is_move = isinstance(site.ref, ast.Attribute) and site.ref.attr == "to" and call.args
    for node in (call.args[0] if is_move else None, *(k.value for k in call.keywords if k.arg == "device")):
        safety = index_safety(node) if node is not None and not isinstance(node, ast.Starred) else None
        if node is not None and safety:
            safety = Safety.SAFE if _is_given(site.module, node) else safety
            yield site.replace(node, f"accel.device({site.module.text(node)})", safety)


def _is_given(module: SemanticModel, node: ast.expr) -> bool:
    """Whether it stands in the body of an `if args.gpu is not None`."""
    wanted = f"{ast.unparse(node)} is not None"
    below: ast.AST = node
    for up in module.ancestors(node):
        if isinstance(up, ast.If) and below in up.body:
            tests = up.test.values if isinstance(up.test, ast.BoolOp) and isinstance(up.test.op, ast.And) else [up.test]
            if any(ast.unparse(test) == wanted for test in tests):
                return True
        below = up
    return False


def index_safety(node: ast.expr) -> Safety | None:
    """None: no index. A name such as `args.gpu` may hold None, which `.to(None)` ignores: unsafe."""
    match node:
        case ast.Constant(bool()):
            return None
        case ast.Constant(int()):
            return Safety.SAFE
        case ast.Name(name) | ast.Attribute(_, name):
            return (Safety.SAFE if _SURE.search(name) else Safety.UNSAFE) if _INDEX.search(name) else None
        case ast.Subscript(ast.Name(name) | ast.Attribute(_, name), ast.Constant(int())):
            return Safety.SAFE if re.search(r"gpu_?ids?$|device_ids$", name) else None
    return None
