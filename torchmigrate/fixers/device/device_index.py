"""Integers in device positions: `.to(0)`, `.to(rank)`, `torch.device(0)`, `device=0` mean a CUDA index (T2)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.spelling import asks_accelerator
from torchmigrate.semantic.torch_use import uses_torch
from torchmigrate.syntax.resolver import chain_of

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


STARTS = re.compile(r"\b(Popen|Process|submit|apply_async|check_call)\(|\bsubprocess\.run\(")
_AT_LEAST_ONE = "max(1, accel.device_count())"


def count(site: RuleContext) -> Iterator[Finding]:
    if site.call is not None and not site.call.args and divides_or_spawns(site):
        yield site.replace(site.call, _AT_LEAST_ONE)
        return
    yield site.rewrite("torch.cuda.device_count", "accel.device_count", site.ref) or site.note()


def divides_or_spawns(site: RuleContext) -> bool:
    node, up = site.node, site.parent
    if isinstance(up, ast.BoolOp) and isinstance(up.op, ast.Or) and up.values[-1] is node:
        node, up = up, site.module.parent(up)  # `args.nproc or torch.cuda.device_count()`
    match up:
        case ast.BinOp(ast.Constant(str()) | ast.JoinedStr(), ast.Mod(), _):
            return False  # "%d devices" % torch.cuda.device_count()
        case ast.BinOp(_, ast.Mod() | ast.FloorDiv() | ast.Div(), right):
            return right is node
        case ast.keyword("nprocs"):
            return True
        case ast.Assign([target], value) if value is node and (name := chain_of(target)):
            return _used_so(site, name)
    return False


def _used_so(site: RuleContext, name: str) -> bool:
    """Whether a variable is only a divisor or a number of processes: one that is compared may mean 0."""
    text, word = site.module.source.text, rf"(?<![\w.]){re.escape(name)}(?![\w(])"
    divides = re.search(rf"[^'\"\s]\s*(%|//|/)\s*{word}|nprocs\s*=\s*{word}", text)
    return bool(divides or _starts(site.module, name)) and not is_asked(site.module, name)


def _starts(module: SemanticModel, name: str) -> bool:
    """Whether a loop starts a process for each: `for rank in range(n): Popen(...)`."""
    return f"range({name})" in _starting(module)


@query
def _starting(module: SemanticModel) -> set[str]:
    """What loops that start processes go over."""
    loops = (s for s in module.scopes.statements if isinstance(s, ast.For) and STARTS.search(module.text(s)))
    return {ast.unparse(loop.iter) for loop in loops}


def is_asked(module: SemanticModel, name: str) -> bool:
    """Whether the file compares a variable or takes it for a condition: `n > 1`, not `rank % n == 0`."""
    return name in _all_asked(module)


@query
def _all_asked(module: SemanticModel) -> set[str | None]:
    return {chain_of(value) for node in module.nodes for value in _asked(node)}


def _asked(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Compare(left, _, comparators):
            return [left, *comparators]
        case ast.BoolOp(_, values):
            return values
        case ast.UnaryOp(ast.Not(), value) | ast.If(value) | ast.IfExp(value) | ast.While(value) | ast.Assert(value):
            return [value]
    return []
