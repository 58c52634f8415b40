"""Fixers for compute capabilities that are kept and compared later, and for device properties.

ROCm answers with AMD's numbers, (9, x), and lacks a Hopper's features. The rule device/properties reports a
capability that is compared in the expression that asks for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import mentions

_MORE = (ast.GtE, ast.Gt)


def capability(context: RuleContext) -> Iterator[Finding]:
    if context.call is None or mentions(context.module, "version.hip"):
        return
    names = _names(context)
    owner = context.module.function(context.call)
    if names and any(_compares(s, names) for s in context.module.scopes.statements if _in(context.module, s, owner)):
        yield context.note()


def _names(context: RuleContext) -> set[str]:
    """Return the names that hold the capability or its first number: `major, minor = ...`, `sm = ...`."""
    up = context.parent
    if isinstance(up, ast.Subscript):
        up = context.module.parent(up)
    if not isinstance(up, ast.Assign) or len(up.targets) != 1:
        return set()
    target = up.targets[0]
    items = target.elts[:1] if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return {item.id for item in items if isinstance(item, ast.Name)}


def _in(module: SemanticModel, statement: ast.stmt, owner: ast.AST | None) -> bool:
    return module.function(statement) is owner


def _compares(statement: ast.stmt, names: set[str]) -> bool:
    """Return whether a statement asks for at least some NVIDIA generation: `major >= 8`, `(8, 0) <= sm`."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], (ast.LtE, ast.Lt)):
            left, right = right, left
        elif not isinstance(node.ops[0], _MORE):
            continue
        if _first_name(left) in names and _is_written(right):
            return True
    return False


def _first_name(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.id if isinstance(node, ast.Name) else ""


def _is_written(node: ast.expr) -> bool:
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(item, ast.Constant) for item in items)


_GATES = {"major", "minor", "multi_processor_count", "gcnArchName"}


def properties(context: RuleContext) -> Iterator[Finding]:
    assert context.qualified is not None
    name = context.qualified.rpartition(".")[2]
    if _is_gate(context, name):
        yield context.note(
            "a capability is NVIDIA's: keep it behind `accel.is_nvidia()`, or ask for what it stands for"
        )
        return
    yield context.rewrite(context.qualified, f"accel.{name}", context.ref) or context.note()


def _is_gate(context: RuleContext, name: str) -> bool:
    if any(isinstance(up, ast.Compare) for up in context.module.ancestors(context.node)):
        return True
    owner = context.module.function(context.node) or context.module.statement(context.node)
    return name == "get_device_properties" and any(
        isinstance(node, ast.Attribute) and node.attr in _GATES for node in ast.walk(owner)
    )
