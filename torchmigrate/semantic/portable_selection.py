"""Ladders that are portable already: code that asks for mps, xpu or npu beside cuda is left alone."""

from __future__ import annotations

import ast
import re

from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.symbols.resolver import chain_of
from torchmigrate.symbols.scope import FUNCTIONS, Scope

PORTABLE = "a ladder that is portable already"
_OTHERS = re.compile(
    r"\b(mps|xpu|npu|hpu|mtia|mlu|musa|hip|accelerator)\b|is_(mps|xpu|npu|rocm|hip)\w*|\w*_(mps|xpu|npu|hip)\b|(mps|xpu|npu)_\w+"
    r"|\b(?i:macos|darwin)\b"
)


@query
def mentions_others(module: SemanticModel, test: ast.AST) -> bool:
    """Whether a test asks for another accelerator, itself or by the names that it reads."""
    if _OTHERS.search(module.text(test)):
        return True
    for node in ast.walk(test):
        if isinstance(node, ast.Name):
            found = module.scope(test).find(node.id)
            if found and _stands_for_others(module, node.id, found[0]):
                return True
    return False


@query
def _stands_for_others(module: SemanticModel, name: str, scope: Scope) -> bool:
    values = (b.value for b in scope.names[name] if b.value is not None)
    return any(_OTHERS.search(module.text(value)) for value in values)


def portable_chain(module: SemanticModel, node: ast.If) -> bool:
    """An `if/elif` chain that asks for another accelerator in one of its tests."""
    top: ast.AST = node
    while isinstance(up := module.parent(top), ast.If) and up.orelse == [top]:
        top = up
    return _portable_below(module, top)


@query
def _portable_below(module: SemanticModel, top: ast.AST) -> bool:
    while isinstance(top, ast.If):
        if mentions_others(module, top.test):
            return True
        if len(top.orelse) > 1 or not top.orelse or not isinstance(top.orelse[0], ast.If):
            return any(isinstance(n, ast.If) and mentions_others(module, n.test) for n in top.orelse)
        top = top.orelse[0]
    return False


def portable_expression(module: SemanticModel, node: ast.IfExp) -> bool:
    """A conditional expression that asks for another accelerator in one of its tests."""
    chain = [node, *(up for up in module.ancestors(node) if isinstance(up, ast.IfExp))]
    below = [n for n in ast.walk(chain[-1]) if isinstance(n, ast.IfExp)]
    return any(mentions_others(module, n.test) for n in below)


@query
def portable_beside(module: SemanticModel, statement: ast.stmt) -> bool:
    """Statements beside this one that choose another accelerator: `if cuda: return ...`, then `if mps: return ...`."""
    branch = statement
    if not isinstance(statement, (ast.If, ast.Assign)) and not isinstance(module.parent(statement), ast.If):
        return False
    while True:
        owner, name = module.parent(branch), _chosen(module, branch)
        others = _others(module, blocks(module)[branch][0][0]).get(name, []) if name else []
        if any(other is not branch for other in others):
            return True
        if not isinstance(owner, ast.If):
            return False
        branch = owner


@query
def _chosen(module: SemanticModel, node: ast.AST) -> str | None:
    """The device variable that a statement sets, or "return"."""
    for inner in ast.walk(node):
        match inner:
            case ast.Assign([target], _) if re.search(r"dev", chain_of(target) or ""):
                return chain_of(target)
            case ast.Return(ast.Call() | ast.Constant(str()) | ast.IfExp()):
                return "return"
    return None


@query
def _others(module: SemanticModel, first: ast.stmt) -> dict[str, list[ast.stmt]]:
    """The statements of a block that choose another accelerator, by what they set; two of each are enough."""
    found: dict[str, list[ast.stmt]] = {}
    for node in blocks(module)[first][0]:
        name = _chosen(module, node) if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) else None
        if name and len(found.get(name, [])) < 2 and _OTHERS.search(module.text(node)):
            found.setdefault(name, []).append(node)
    return found


@query
def blocks(module: SemanticModel) -> dict[ast.stmt, tuple[list[ast.stmt], int]]:
    """The block that each statement stands in, and where."""
    owners = dict.fromkeys(module.parent(s) for s in module.scopes.statements)
    lists = (getattr(owner, name, []) for owner in owners for name in ("body", "orelse", "finalbody"))
    return {statement: (block, at) for block in lists for at, statement in enumerate(block)}
