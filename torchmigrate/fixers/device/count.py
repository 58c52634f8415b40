"""`torch.cuda.device_count()`: 0 where there is no accelerator, which `== 0` and `> 1` want to know (T6).

As a divisor, or as the number of processes to start, 0 would be an error or no work at all: there it is at least 1,
which changes nothing on CUDA.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.symbols.resolver import chain_of

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
