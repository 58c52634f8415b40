"""Fixers for compute capabilities that are kept and compared later, and for device properties.

ROCm answers with AMD's numbers, (9, x), and lacks a Hopper's features. The rule device/properties reports a
capability that is compared in the expression that asks for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.dominance import DIVISIONS, decided_by, reads
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import mentions
from torchmigrate.torch_api.backends import having

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


_KNOWN = {"name", "total_memory", "major", "minor", "multi_processor_count"}  # what the helper's properties have
_UNKNOWN = "off CUDA the helper does not know this, and says 0, which would decide {what} (line {line}): {advice}"
_DIVIDES = "off CUDA the helper does not know this, and says 0, by which line {line} divides: {advice}"
_RAISES = ("cpu", *having("reported"))
_ADVICE = {
    "mem_get_info": "keep it behind a test for CUDA, or let people set the limit",
    "get_device_properties": "keep it behind `accel.is_nvidia()`, or let people set the limit",
    "get_device_capability": "keep it behind `accel.is_nvidia()`, or ask for what it stands for",
}


def properties(context: RuleContext) -> Iterator[Finding]:
    """Rewrite what is told of a device; leave what decides something, as 0 off CUDA means unknown."""
    assert context.qualified is not None
    name = context.qualified.rpartition(".")[2]
    if context.call is not None:
        place = decided_by(context.module, context.call, told=("name",))
        if place is None and name == "get_device_properties":
            place = _lacking(context.module, context.call)
        if place is not None:
            kind = "a comparison" if isinstance(place, ast.Compare) else "what follows"
            line = context.module.source.position(context.module.span(_spanned(place))[0])[0]
            said = _DIVIDES if isinstance(place, ast.BinOp) and isinstance(place.op, DIVISIONS) else _UNKNOWN
            yield context.note(said.format(what=kind, line=line, advice=_ADVICE[name]), backends=_RAISES)
            return
    found = context.rewrite(context.qualified, f"accel.{name}", context.ref) or context.note()
    yield replace(found, backends=_RAISES)


def _spanned(node: ast.AST) -> ast.AST:
    """Return the node itself, or the test of a comprehension, which has no place of its own."""
    return node.ifs[0] if isinstance(node, ast.comprehension) else node


def _lacking(module: SemanticModel, call: ast.Call) -> ast.AST | None:
    """Return where an attribute is read that the helper's properties lack."""
    up = module.parent(call)
    read: list[ast.AST] = [up] if isinstance(up, ast.Attribute) else []
    for target in up.targets if isinstance(up, ast.Assign) and up.value is call else ():
        read += [place for node in reads(module, target) if isinstance(place := module.parent(node), ast.Attribute)]
    return next((node for node in read if getattr(node, "attr", "") not in _KNOWN), None)
