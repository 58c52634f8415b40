"""Read frames of a traceback: the expression that failed, and the values of names in it; no code of them is run."""

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
# statements and expressions that a compound statement does not evaluate itself
_LATER = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list")
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")  # where nn.Module.__getattr__ looks


class Entry(NamedTuple):
    """An entry is one step of a traceback."""

    frame: types.FrameType
    line: int
    instruction: int  # byte offset in the code object's bytecode

    @property
    def file(self) -> str:
        return self.frame.f_code.co_filename


def is_own(file: str, project: str) -> bool:
    """Return whether a file is the project's own code: neither an installed package nor our vendored helper."""
    path = os.path.realpath(file)
    inside = bool(project) and path.startswith(project + os.sep) and not set(_INSTALLED) & set(path.split(os.sep))
    return inside and not linecache.getline(path, 1).startswith(_HELPER)


@functools.lru_cache(maxsize=64)
def tree(file: str) -> ast.Module | None:
    """Return a file's syntax tree, or None if its source is missing or does not parse."""
    try:
        lines = linecache.getlines(file)
        return ast.parse("".join(lines)) if lines else None
    except (SyntaxError, ValueError, RecursionError, SystemError):  # the last: python/cpython#106905, in threads
        return None


def statement_at(module: ast.AST, line: int) -> ast.stmt | None:
    """Return the innermost statement on a line, or None."""
    holds = (n for n in ast.walk(module) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or n.lineno))
    return max(holds, key=lambda statement: (statement.lineno, statement.col_offset), default=None)


def failed_expression(entry: Entry) -> ast.AST | None:
    """Return the call, operator or subscript that failed; before Python 3.11, the statement."""
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
    """Yield text and value of the names, `a.b` and `a["b"]` in an expression; of each the longest readable form."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        value = evaluate(node, frame)
        if value is not MISSING:
            yield ast.unparse(node), value
            return
    for child in _evaluated(node):
        yield from readable(child, frame)


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the child nodes that are evaluated together with a node: not those in a body, nor in a lambda."""
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.Lambda) or (isinstance(node, ast.stmt) and name in _LATER):
            continue
        yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, ast.AST))


def operands(node: ast.AST) -> list[ast.expr]:
    """Return the operands of an operator, or the arguments of a call."""
    if isinstance(node, (ast.BinOp, ast.Compare)):
        return [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    return [node.value] if isinstance(node, ast.AugAssign) else []


def evaluate(node: ast.AST, frame: types.FrameType) -> Any:
    """Return the value of `a`, `a.b`, `a["b"]` or a constant, else MISSING, and run nothing of the program."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, MISSING))
    if isinstance(node, ast.Attribute):
        return attribute(evaluate(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _evaluate_item(evaluate(node.value, frame), evaluate(node.slice, frame))
    return MISSING


def parts(owner: Any) -> dict[Any, Any]:
    """Return an object's own attributes; an nn.Module's parameters, buffers and submodules too."""
    if owner is MISSING:
        return {}
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    inner = (own[name] for name in _MODULE_PARTS if type(own.get(name)) is dict)
    return {**{k: v for k, v in own.items() if k not in _MODULE_PARTS}, **{k: v for d in inner for k, v in d.items()}}


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute stored in the instance, or in its class unless it is a descriptor; else MISSING."""
    own = parts(owner)
    if name in own:
        return own[name]
    classes = type.__dict__["__mro__"].__get__(owner if isinstance(owner, type) else type(owner))
    found = next((vars(c)[name] for c in classes if name in vars(c)), MISSING)
    return MISSING if hasattr(type(found), "__get__") else found


def _evaluate_item(owner: Any, key: Any) -> Any:
    if not isinstance(key, (str, int)):
        return MISSING
    if isinstance(owner, dict):
        return dict.get(owner, key, MISSING)  # a subclass's [] may call its __missing__
    try:
        return owner[key] if type(owner) in (list, tuple) else MISSING
    except (IndexError, TypeError):
        return MISSING
