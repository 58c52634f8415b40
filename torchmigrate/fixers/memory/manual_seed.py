"""`torch.cuda.manual_seed(_all)`: harmless off CUDA, where `torch.manual_seed` seeds every device (T9).

Rewritten only where `torch.manual_seed` does not certainly run with the same seed in the same function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel


def manual_seed(site: RuleContext) -> Iterator[Finding]:
    assert site.qualified is not None
    name = site.qualified.rpartition(".")[2]
    if site.call is None:
        if not isinstance(site.parent, (ast.alias, ast.Attribute)):
            yield site.replace(site.ref, f"accel.{name}")
    elif seeded_beside(site, site.call):
        yield site.left("torch.manual_seed beside it seeds every device with the same seed")
    else:
        yield site.rewrite(f"{site.qualified}($$args)", f"accel.{name}($$args)") or site.note()


def seeded_beside(site: RuleContext, call: ast.Call) -> bool:
    """Whether `torch.manual_seed`, which seeds every device, certainly runs with the same seed."""
    module = site.module
    owner = module.function(call) or module.tree
    wanted = _values(call)
    for statement in module.scopes.statements:
        if module.function(statement) is not (owner if owner is not module.tree else None) or not _always(
            module, statement, call
        ):
            continue
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Call)
                and _values(node) == wanted
                and module.resolve(node.func, site.scope) == "torch.manual_seed"
            ):
                return True
    return False


def _values(call: ast.Call) -> list[str]:
    return [ast.dump(a) for a in (*call.args, *(k.value for k in call.keywords))]


def _always(module: SemanticModel, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether `statement`, a plain one, runs whenever the block of `call` does: it stands there or around it."""
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        return False
    here: ast.AST = module.statement(call)
    while here is not module.tree:
        up = module.parent(here)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(up, name, None)
            if isinstance(block, list) and here in block and statement in block:
                return True
        if up is None:
            break
        here = up
    return False
