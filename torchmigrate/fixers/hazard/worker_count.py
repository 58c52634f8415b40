"""A number of devices that decides how much is done: 0 where there is no accelerator, and then nothing is, in silence.

device/count makes it at least 1 where it only divides or only starts processes; what is left is told here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device.device_index import STARTS, divides_or_spawns, is_asked
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.syntax.resolver import chain_of

_PROCESSES = {"nprocs", "num_processes", "processes"}
_NOTHING = "is 0 without an accelerator: no process is started, nothing is done, and the exit status is 0"
_DIVIDES = "is 0 without an accelerator: ZeroDivisionError on the CPU"
_WAY_OUT = "`max(1, ...)` does one device's work there"


def worker_count(site: RuleContext) -> Iterator[Finding]:
    if site.call is None or (site.qualified == "torch.cuda.device_count" and divides_or_spawns(site)):
        return
    found = _meaning(site.module, site.call)
    target = _target(site)
    if found is None and target:
        found = _of_variable(site.module, target, site.module.function(site.call))
    if found is not None:
        yield site.note(f"the number of devices {found}: {_WAY_OUT}")


def _target(site: RuleContext) -> str | None:
    match site.parent:
        case ast.Assign([target], value) if value is site.node:
            return chain_of(target)
    return None


@query
def _of_variable(module: SemanticModel, name: str, owner: ast.AST | None) -> str | None:
    """What the function (or the file, for a name of its top level) does with it, unless it asks whether it is 0."""
    if is_asked(module, name):
        return None
    found = (_meaning_at(statement, node) for statement, node in _loads(module).get((owner, name), []))
    return next(filter(None, found), None)


@query
def _loads(module: SemanticModel) -> dict[tuple[ast.AST | None, str | None], list[tuple[ast.stmt, ast.expr]]]:
    """Where each function (or the top level) reads each name."""
    found: dict[tuple[ast.AST | None, str | None], list[tuple[ast.stmt, ast.expr]]] = {}
    for statement in module.scopes.statements:
        owner = module.function(statement)
        for node in ast.walk(statement):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                found.setdefault((owner, chain_of(node)), []).append((statement, node))
    return found


def _meaning(module: SemanticModel, node: ast.expr) -> str | None:
    return _meaning_at(module.statement(node), node)


def _meaning_at(statement: ast.stmt, node: ast.expr) -> str | None:
    """What 0 would do at this place."""
    if isinstance(statement, ast.For) and _is_range_of(statement.iter, node):
        starts = any(STARTS.search(ast.unparse(s)) for s in statement.body)
        return _NOTHING if starts else None
    for up in ast.walk(statement):
        match up:
            case ast.BinOp(left, ast.Div() | ast.FloorDiv() | ast.Mod(), right) if right is node:
                return None if isinstance(left, (ast.JoinedStr, ast.Constant)) else _DIVIDES
            case ast.keyword(arg, value) if value is node and arg in _PROCESSES:
                return _NOTHING
            case ast.comprehension(iter=iterated) if _is_range_of(iterated, node):
                return _NOTHING if STARTS.search(ast.unparse(statement)) else None
    return None


def _is_range_of(node: ast.expr, count: ast.expr) -> bool:
    return isinstance(node, ast.Call) and chain_of(node.func) == "range" and node.args[-1:] == [count]
