"""Ladders that are portable already: code that asks for mps, xpu or npu beside cuda is left alone."""

from __future__ import annotations

import ast
import re

from torchmigrate.module import Module
from torchmigrate.scope import FUNCTIONS, chain_of

PORTABLE = "a ladder that is portable already"
_OTHERS = re.compile(
    r"\b(mps|xpu|npu|hpu|mtia|mlu|musa|hip|accelerator)\b|is_(mps|xpu|npu|rocm|hip)\w*|\w*_(mps|xpu|npu|hip)\b|(mps|xpu|npu)_\w+"
    r"|\b(?i:macos|darwin)\b"
)


def mentions_others(module: Module, test: ast.AST) -> bool:
    """Whether a test asks for another accelerator, itself or by the names that it reads."""
    if _OTHERS.search(module.text(test)):
        return True
    for node in ast.walk(test):
        if isinstance(node, ast.Name):
            found = module.scope(test).find(node.id)
            values = [b.value for b in found[1] if b.value is not None] if found else []
            if any(_OTHERS.search(module.text(v)) for v in values):
                return True
    return False


def portable_chain(module: Module, node: ast.If) -> bool:
    """An `if/elif` chain that asks for another accelerator in one of its tests."""
    top: ast.AST = node
    while isinstance(up := module.parent(top), ast.If) and up.orelse == [top]:
        top = up
    while isinstance(top, ast.If):
        if mentions_others(module, top.test):
            return True
        if len(top.orelse) > 1 or not top.orelse or not isinstance(top.orelse[0], ast.If):
            return any(isinstance(n, ast.If) and mentions_others(module, n.test) for n in top.orelse)
        top = top.orelse[0]
    return False


def portable_expression(module: Module, node: ast.IfExp) -> bool:
    """A conditional expression that asks for another accelerator in one of its tests."""
    chain = [node, *(up for up in module.ancestors(node) if isinstance(up, ast.IfExp))]
    below = [n for n in ast.walk(chain[-1]) if isinstance(n, ast.IfExp)]
    return any(mentions_others(module, n.test) for n in below)


def portable_beside(module: Module, statement: ast.stmt) -> bool:
    """Statements beside this one that choose another accelerator: `if cuda: return ...`, then `if mps: return ...`."""
    branch = statement
    if not isinstance(statement, (ast.If, ast.Assign)) and not isinstance(module.parent(statement), ast.If):
        return False
    while True:
        owner = module.parent(branch)
        blocks = (b for n in ("body", "orelse") if isinstance(b := getattr(owner, n, None), list) and branch in b)
        name = _chosen(branch)
        if name and any(s is not branch and _chooses_other(module, s, name) for s in next(blocks, [])):
            return True
        if not isinstance(owner, ast.If):
            return False
        branch = owner


def _chosen(node: ast.AST) -> str | None:
    """The device variable that a statement sets, or "return"."""
    for inner in ast.walk(node):
        match inner:
            case ast.Assign([target], _) if re.search(r"dev", chain_of(target) or ""):
                return chain_of(target)
            case ast.Return(ast.Call() | ast.Constant(str()) | ast.IfExp()):
                return "return"
    return None


def _chooses_other(module: Module, node: ast.stmt, name: str) -> bool:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)) or _chosen(node) != name:
        return False
    return bool(_OTHERS.search(module.text(node)))
