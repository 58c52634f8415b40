"""`share_memory()` of what is on a device: CUDA shares it between processes, other accelerators refuse."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.tensor_type.float64 import names_device
from torchmigrate.semantic.model import SemanticModel


def sharing(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None or call.args or call.keywords or not isinstance(call.func, ast.Attribute):
        return
    if _on_device(site.module, call.func.value, call):
        yield site.note()


def _on_device(module: SemanticModel, node: ast.expr, call: ast.Call) -> bool:
    """`x.cuda()`, or a name that this function (or the module) moves to a device."""
    chain: ast.expr = node
    while isinstance(chain, (ast.Call, ast.Attribute)):
        if isinstance(chain, ast.Call) and names_device(chain):
            return True
        chain = chain.func if isinstance(chain, ast.Call) else chain.value
    return isinstance(node, ast.Name) and any(_moves(s, node.id) for s in _before(module, call))


def _before(module: SemanticModel, call: ast.Call) -> Iterator[ast.stmt]:
    home, end = module.function(call), module.span(call)[0]
    for statement in module.scopes.statements:
        if module.function(statement) is home and module.span(statement)[0] < end:
            yield statement


def _moves(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign([ast.Name(target)], ast.Call() as value):
            return target == name and any(isinstance(n, ast.Call) and names_device(n) for n in _chain(value))
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(owner))) as value):
            return owner == name and names_device(value)
    return False


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    while isinstance(node, (ast.Call, ast.Attribute)):
        yield node
        node = node.func if isinstance(node, ast.Call) else node.value
