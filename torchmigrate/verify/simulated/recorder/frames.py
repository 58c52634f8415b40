"""What a frame was doing: the expression that failed, and what names mean in it. None of its code is run for that."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

MISSING: Any = object()
_HELPER = "# torchmigrate-runtime"
_INSTALLED = ("site-packages", "dist-packages")
_LATER = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list")  # not a compound statement's own
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")  # where nn.Module.__getattr__ looks


class Entry(NamedTuple):
    """One step of a traceback."""

    frame: types.FrameType
    line: int
    instruction: int  # offset of the bytecode

    @property
    def file(self) -> str:
        return self.frame.f_code.co_filename


def is_own(file: str, project: str) -> bool:
    """The project's own code: not a package installed under it, and not the helper that a migration puts there."""
    path = os.path.realpath(file)
    inside = bool(project) and path.startswith(project + os.sep) and not set(_INSTALLED) & set(path.split(os.sep))
    return inside and not linecache.getline(path, 1).startswith(_HELPER)


@functools.lru_cache(maxsize=64)
def tree(file: str) -> ast.Module | None:
    """A file's syntax tree; None if its source is not at hand."""
    try:
        lines = linecache.getlines(file)
        return ast.parse("".join(lines)) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def statement_at(module: ast.AST, line: int) -> ast.stmt | None:
    """The innermost statement on that line."""
    holds = (n for n in ast.walk(module) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or n.lineno))
    return max(holds, key=lambda statement: (statement.lineno, statement.col_offset), default=None)


def failed_expression(entry: Entry) -> ast.AST | None:
    """The call, operator or subscript that failed; before Python 3.11, which does not tell, the statement it is in."""
    module = tree(entry.file)
    statement = None if module is None else statement_at(module, entry.line)
    positions = getattr(entry.frame.f_code, "co_positions", None)
    if statement is None or positions is None:
        return statement
    wanted = next(itertools.islice(positions(), entry.instruction // 2, None), None)
    return next((n for n in ast.walk(statement) if isinstance(n, ast.expr) and _span(n) == wanted), statement)


def _span(node: ast.expr) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def readable(node: ast.AST, frame: types.FrameType) -> Iterator[tuple[str, Any]]:
    """The text and value of each name, `a.b` and `a["b"]` of an expression; the longest that can be read."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        value = evaluate(node, frame)
        if value is not MISSING:
            yield ast.unparse(node), value
            return
    for child in _evaluated(node):
        yield from readable(child, frame)


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """The parts that are evaluated with it, and not in a body or a later call."""
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.Lambda) or (isinstance(node, ast.stmt) and name in _LATER):
            continue
        yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, ast.AST))


def operands(node: ast.AST) -> list[ast.expr]:
    """What an operator or a call works on."""
    if isinstance(node, (ast.BinOp, ast.Compare)):
        return [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    return [node.value] if isinstance(node, ast.AugAssign) else []


def evaluate(node: ast.AST, frame: types.FrameType) -> Any:
    """The value of `a`, `a.b`, `a["b"]` or a constant, or MISSING: no property, no __getattr__, no call is run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, MISSING))
    if isinstance(node, ast.Attribute):
        return attribute(evaluate(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(evaluate(node.value, frame), evaluate(node.slice, frame))
    return MISSING


def parts(owner: Any) -> dict[Any, Any]:
    """An instance's or module's own attributes; of an nn.Module its parameters, buffers and submodules too."""
    if owner is MISSING:
        return {}
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    inner = (own[name] for name in _MODULE_PARTS if type(own.get(name)) is dict)
    return {**{k: v for k, v in own.items() if k not in _MODULE_PARTS}, **{k: v for d in inner for k, v in d.items()}}


def attribute(owner: Any, name: str) -> Any:
    """An attribute that is stored in the instance or, not as a descriptor, in its class; else MISSING."""
    own = parts(owner)
    if name in own:
        return own[name]
    classes = type.__dict__["__mro__"].__get__(owner if isinstance(owner, type) else type(owner))
    found = next((vars(c)[name] for c in classes if name in vars(c)), MISSING)
    return MISSING if hasattr(type(found), "__get__") else found


def _item(owner: Any, key: Any) -> Any:
    if not isinstance(key, (str, int)):
        return MISSING
    if isinstance(owner, dict):
        return dict.get(owner, key, MISSING)  # a subclass's [] may call its __missing__
    try:
        return owner[key] if type(owner) in (list, tuple) else MISSING
    except (IndexError, TypeError):
        return MISSING
