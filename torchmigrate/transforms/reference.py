"""Shared: whether a name stands as a type (in an annotation, in `isinstance`) rather than as something to call."""

from __future__ import annotations

import ast

from torchmigrate.module import Module


def is_annotation(module: Module, node: ast.AST) -> bool:
    """`x: T`, `-> T`, `Optional[T]` in either."""
    below: ast.AST = node
    for up in module.ancestors(node):
        if getattr(up, "annotation", None) is below or getattr(up, "returns", None) is below:
            return True
        if isinstance(up, (ast.stmt, ast.Call, ast.Lambda)):
            return False
        below = up
    return False


def type_test(module: Module, node: ast.AST) -> ast.Call | None:
    """The `isinstance(x, T)`, also with T in a tuple, that holds `node` as T."""
    up = module.parent(node)
    below = node
    while isinstance(up, (ast.Tuple, ast.BinOp)):
        below, up = up, module.parent(up)
    plain = isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id in ("isinstance", "issubclass")
    return up if plain and up.args[1:] == [below] else None  # type: ignore[union-attr, return-value]
