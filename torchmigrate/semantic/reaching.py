"""Shared: what a name was given last on every way to a statement. What is not certain is None."""

from __future__ import annotations

import ast
import re

from torchmigrate.semantic.model import SemanticModel

Given = list[tuple[ast.expr, ast.stmt]]  # each value with the statement that gives it
_OUTWARD = (ast.If, ast.With, ast.For, ast.While, ast.Try)  # a function may run at another time
_BLOCKS = ("body", "orelse", "finalbody")


def given_before(module: SemanticModel, name: str, statement: ast.stmt) -> Given | None:
    """Only by plain assignments, alone or in all arms of an `if`."""
    if re.search(rf"\b(global|nonlocal)\b[^\n]*\b{name}\b", module.source.text):
        return None
    return _before(module, name, statement)


def _before(module: SemanticModel, name: str, statement: ast.stmt) -> Given | None:
    up = module.parent(statement)
    if _binds(statement, name) and not isinstance(statement, (ast.Assign, ast.If)):
        return None
    if any(isinstance(n, ast.NamedExpr) and n.target.id == name for n in ast.walk(statement)):
        return None
    for block in (getattr(up, field, None) or [] for field in _BLOCKS):
        if statement in block:
            found = _last(block[: block.index(statement)], name)
            if found != []:
                return found
    return _before(module, name, up) if isinstance(up, _OUTWARD) else None


def _last(block: list[ast.stmt], name: str) -> Given | None:
    """By the end of a block; [] if it leaves the name alone."""
    return next((given for s in reversed(block) if (given := _given(s, name)) != []), [])


def _given(statement: ast.stmt, name: str) -> Given | None:
    times = _binds(statement, name)
    match statement:
        case _ if not times:
            return []
        case ast.Assign([ast.Name(target)], value) if target == name and times == 1:
            return [(value, statement)]
        case ast.If(test, body, orelse) if not _binds(test, name):
            arms = [_last(body, name), _last(orelse, name)]
            return [pair for arm in arms for pair in arm or ()] if all(arms) else None
    return None


def _binds(tree: ast.AST, name: str) -> int:
    """How often a name is bound (or unbound) in a tree, whichever scope it is in."""
    return sum(
        (isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load))
        or name in (getattr(n, "asname", None), getattr(n, "name", None), getattr(n, "rest", None))
        or (isinstance(n, ast.alias) and n.name == "*")
        for n in ast.walk(tree)
    )
