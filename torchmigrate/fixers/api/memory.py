"""Fixers for streams, pinned memory and random seeds.

On CUDA the helper's streams are CUDA's own; elsewhere they are the backend's, or the one queue (T19).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.api.amp import helper_class
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.semantic.model import SemanticModel

_RAW = ("cuda_stream", "ptr")  # the handle that another CUDA library takes


def stream(site: RuleContext) -> Iterator[Finding]:
    name = (site.qualified or "").rpartition(".")[2]
    up = site.parent
    if isinstance(up, ast.Attribute) and up.attr in _RAW:
        yield site.note(f"`.{up.attr}` is CUDA's own handle, which other devices' streams do not have")
    elif name == "Stream":
        yield from helper_class(site)
    elif not isinstance(up, ast.alias):
        yield site.replace(site.ref, f"accel.{'stream' if name == 'StreamContext' else name}")


def record_stream(site: RuleContext) -> Iterator[Finding]:
    own = isinstance(site.ref, ast.Attribute) and _is_own(site.ref.value, "self")
    if site.call is not None and not own:
        yield site.rewrite("$x.record_stream($$s)", "accel.record_stream($x, $$s)") or site.note()


def _is_own(receiver: ast.expr, *names: str) -> bool:
    """Return whether a receiver is `super()` or one of these names, so that the method is the class's own."""
    match receiver:
        case ast.Name(name):
            return name in names
        case ast.Call(ast.Name("super"), [], []):
            return True
    return False


def pin_memory(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None or not isinstance(site.ref, ast.Attribute):
        return
    if _is_own(site.ref.value, "self", "cls"):
        return
    if call.args or call.keywords:
        yield site.note(
            "`pin_memory(device)` raises without an accelerator, and its argument is deprecated: leave it out"
        )
    else:
        yield site.rewrite("$x.pin_memory()", "accel.pin($x)") or site.note()


def non_blocking(site: RuleContext) -> Iterator[Finding]:
    if site.call is None or not uses_torch(site.module):
        return
    for keyword in site.call.keywords:
        if keyword.arg == "non_blocking" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
            yield site.replace(keyword.value, "accel.non_blocking()")


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
    """Return whether `torch.manual_seed`, which seeds every device, certainly runs with the same seed."""
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
    """Return whether `statement`, a plain one, runs whenever the block of `call` does: it stands there or around it."""
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
