"""Fixers for processes beside each other: DistributedDataParallel, FSDP, and tensors in memory that they share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.hazard.mps import names_device
from torchmigrate.semantic.device_expr import wrapped
from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.library_use import first_call, is_for_devices
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers_in, spell, spelled, strings_in
from torchmigrate.syntax.resolver import chain_of, leaves_block
from torchmigrate.torch_api.backends import having

_INDEX = re.compile(r"rank$|^gpu(_id)?$|^(device_)?(id|idx|index)$", re.I)
_WORDS = ("world", "rank", "distrib", "ddp", "parallel", "process", "gpu", "device", "accelerat", *having("helper"))
_CHOICE = re.compile("|".join(_WORDS), re.I)
_MPS = "MPS has no collectives and raises AttributeError"
_WITHOUT = 'FSDP asks for an accelerator: on the CPU it raises without `device_id=torch.device("cpu")`, and ' + _MPS


def fsdp(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    name = (context.qualified or "").rpartition(".")[2]
    if call is None or (name != "fully_shard" and any(k.arg is None for k in call.keywords)):
        return
    if name == "ShardedGradScaler":
        if not call.args and not any(k.arg == "device" for k in call.keywords):
            yield context.note("its `device` is CUDA's: elsewhere it warns and scales nothing; name it, `device=...`")
        return
    given = next((k.value for k in call.keywords if k.arg == "device_id"), None)
    if name == "FullyShardedDataParallel" and given is not None:
        yield from _device_id(context, given)
    elif first_call(context.module, {context.qualified or ""}) is call:
        yield context.note(_WITHOUT if name == "FullyShardedDataParallel" else f"{_MPS}: leave `fully_shard` out there")


def _device_id(context: RuleContext, given: ast.expr) -> Iterator[Finding]:
    """Name the accelerator in `device_id=`. None means the device of the module, and must stay None."""
    edits = wrapped(context.module, given, "accel.device(")
    if _is_index(context.module, given):
        yield context.fix(edits)
    elif _INDEX.search((chain_of(given) or "").rpartition(".")[2]):
        why = f"{context.rule.message}; where `{context.module.text(given)}` is None, this moves what stayed"
        yield context.fix(edits, Safety.UNSAFE, why)


def _is_index(module: SemanticModel, node: ast.expr) -> bool:
    match node:
        case ast.Constant(int()):
            return True
        case ast.Call(func):
            own = chain_of(func) == spell("accel.current_device", spelled(module))
            return own or (module.resolve(func) or chain_of(func)) in ("int", "torch.cuda.current_device")
    return False


def mps(context: RuleContext) -> Iterator[Finding]:
    """Report the first DistributedDataParallel of a file that no test about processes or devices keeps from MPS."""
    if context.call is None or not is_for_devices(context.module):
        return
    if _first_unguarded(context.module, tuple(context.rule.on)) is context.call:
        yield context.note()


@query
def _first_unguarded(module: SemanticModel, names: tuple[str, ...]) -> ast.Call | None:
    know_parents(module)
    calls = (n for n in module.nodes if isinstance(n, ast.Call) and module.resolve(n.func) in names)
    return min((call for call in calls if not _depends_on_processes(module, call)), key=module.span, default=None)


def _depends_on_processes(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a test about processes or devices decides if a call runs."""
    below: ast.AST = call
    for up in module.ancestors(call):
        if isinstance(up, (ast.If, ast.IfExp, ast.While)) and below is not up.test and _asks(module, up.test):
            return True
        if isinstance(up, ast.BoolOp) and any(_asks(module, value) for value in up.values if value is not below):
            return True
        before = module.blocks.before(below) if isinstance(below, ast.stmt) else ()
        if any(isinstance(s, ast.If) and leaves_block(s.body) and _asks(module, s.test) for s in before):
            return True
        below = up
    return False


def _asks(module: SemanticModel, test: ast.expr) -> bool:
    return any(map(_CHOICE.search, identifiers_in(module, test) | strings_in(module, test)))


def sharing(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None or call.args or call.keywords or not isinstance(call.func, ast.Attribute):
        return
    if _on_device(context.module, call.func.value, call):
        yield context.note()


def _on_device(module: SemanticModel, node: ast.expr, call: ast.Call) -> bool:
    """Return whether a receiver is `x.cuda()` or a name that this function (or the module) moves to a device."""
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
