"""TF32 by the old switches (`allow_tf32`) and by the new ones (`fp32_precision`): which files run in one process with
the old ones. Torch raises RuntimeError where the old ones are read after the new ones are set."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from torchmigrate.default_type import qualified, together
from torchmigrate.files import MARKER
from torchmigrate.imports import TF32
from torchmigrate.scope import Resolver, chain_of
from torchmigrate.scopes import build

if TYPE_CHECKING:
    from torchmigrate.imports import ImportIndex

Resolve = Callable[[ast.AST], str | None]
OLD = frozenset(
    {
        "torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32",
        "torch.set_float32_matmul_precision", "torch.get_float32_matmul_precision",
    }
)  # fmt: skip


def survey(index: ImportIndex) -> Mapping[str, tuple[str, ast.expr]]:
    """For each file, the first old switch (its file and place) that runs in one process with it."""
    files = set[str]().union(*map(index.holding, TF32))
    found = {path: place for path in sorted(files) if (place := _first_old(path, index)) is not None}
    beside: dict[str, tuple[str, ast.expr]] = {}
    for path, place in found.items():
        for other in together({path}, index):
            beside.setdefault(other, (path, place))
    return beside


def _first_old(path: str, index: ImportIndex) -> ast.expr | None:
    try:
        raw = index.read(path)
    except OSError:
        return None
    if raw.startswith(MARKER):
        return None
    try:
        scopes = build(ast.parse(raw))
    except (SyntaxError, ValueError, RecursionError):
        return None
    resolver = Resolver()
    for statement in scopes.statements:
        scope = scopes.scope_of[statement]
        found = first_old(statement, lambda node, scope=scope: qualified(chain_of(node) or "", scope, resolver))  # type: ignore[misc]
        if found is not None:
            return found
    return None


def first_old(statement: ast.stmt, resolve: Resolve) -> ast.expr | None:
    """In a statement's own header."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Attribute, ast.Name)) and resolve(node) in OLD:
            return node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return None
