"""`torch.cuda.is_available()` where it means "is there an accelerator" (T5); guards.py decides with what it guards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site

_TELLS = {"print", "info", "debug", "warning", "warn", "log", "write", "format", "append", "echo", "str"}


def availability(site: Site) -> Iterator[Finding]:
    if site.call is None:
        up = site.parent
        if not isinstance(up, (ast.Attribute, ast.Expr)):
            yield site.note("handed on as a function: it asks for CUDA alone")
        return
    if _told(site):
        return
    found = site.rewrite("torch.cuda.is_available()", "accel.is_available()")
    yield found or site.note()


def _told(site: Site) -> bool:
    """Whether the answer is only printed: a report about CUDA stays one."""
    node: ast.AST = site.node
    for up in site.module.ancestors(node):
        match up:
            case ast.Call(func):
                return node is not func and getattr(func, "id", getattr(func, "attr", "")) in _TELLS
            case ast.JoinedStr() | ast.FormattedValue() | ast.Tuple():
                node = up
            case ast.BinOp(ast.Constant(str())):
                node = up
            case ast.Dict() | ast.Expr():
                return True
            case _:
                return False
    return False
