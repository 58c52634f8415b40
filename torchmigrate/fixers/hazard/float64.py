"""Fixers for float64, which MPS lacks: doubles that move to a device in the same statement, and `.double()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.syntax.scope import Scope
from torchmigrate.torch_api.names import DTYPE_WORDS

_MOVES = ("cuda", "to")


def float64(context: RuleContext) -> Iterator[Finding]:
    if isinstance(context.ref, ast.Attribute) and context.ref.attr == "double":
        if context.call is not None and not context.call.args and moved(context.module, context.call):
            yield context.note()
    elif context.qualified == "torch.cuda.DoubleTensor" or moved(context.module, context.ref):
        yield context.note()


def moved(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a call of the same chain, or the call that takes this dtype, names a device."""
    return any(names_device(n) for n in (*_below(node), *_above(module, node)))


def _above(module: SemanticModel, node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that the value goes through: `x.double().to(d)`; not `g(f(x.double()))`."""
    below = node
    for up in module.ancestors(node):
        if isinstance(up, ast.Call):
            if below is not up.func and not isinstance(below, ast.keyword) and not _takes_dtype(up):
                return
            yield up
        elif not isinstance(up, (ast.Attribute, ast.keyword)):
            return
        below = up


def _takes_dtype(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type", "astype", "cast", "tensor_type")


def _below(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that made the receiver: `x.cuda().double()`."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Call):
            yield node
        node = node.func if isinstance(node, ast.Call) else node.value


def names_device(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "cuda" or chain_of(call.func) in _HELPERS:
        return True
    if any(k.arg == "device" and not _is_cpu(k.value) for k in call.keywords):
        return True
    return name == "to" and any(
        not _is_cpu(a) and (chain_of(a) or "").rpartition(".")[2] not in DTYPE_WORDS for a in call.args[:1]
    )


_HELPERS = ("accel.cast", "accel.tensor_type", "accel.set_default_tensor_type")


def _is_cpu(node: ast.expr) -> bool:
    """Return whether an argument is None, or has "cpu" in it, as `torch.device("cpu")` does."""
    return (isinstance(node, ast.Constant) and node.value is None) or any(
        isinstance(below, ast.Constant) and below.value == "cpu" for below in ast.walk(node)
    )


_ON_CPU = ("cpu", "numpy", "from_numpy")
_FACTORIES = ("tensor", "zeros", "ones", "empty", "full", "arange", "linspace", "rand", "randn", "randperm", "eye")


def double(context: RuleContext) -> Iterator[Finding]:
    if context.call is None or context.call.args or context.call.keywords or not isinstance(context.ref, ast.Attribute):
        return
    if not uses_torch(context.module):
        return
    if not moved(context.module, context.call) and not on_cpu(
        context.module, context.ref.value, context.module.scope(context.ref)
    ):
        yield _after_the_cpu(context, context.ref) or context.note()


def _after_the_cpu(context: RuleContext, double: ast.Attribute) -> Finding | None:
    """Return the fix of `x.double().cpu()`, which is `x.cpu().double()` on every device, or None."""
    module = context.module
    to_cpu = module.parent(context.call) if context.call else None
    match to_cpu, module.parent(to_cpu) if to_cpu else None:
        case ast.Attribute(attr="cpu"), ast.Call(func, [], []) if func is to_cpu:
            ends = [(module.span(node)[1], len(node.attr)) for node in (double, func)]
            edits = [Edit(end - size, end, name) for (end, size), name in zip(ends, ("cpu", "double"), strict=True)]
            return context.fix(edits, Safety.SAFE, "MPS has no float64, and this makes it before it moves to the CPU")
    return None


def on_cpu(module: SemanticModel, node: ast.expr, scope: Scope) -> bool:
    """Return whether a value is certainly on the CPU: `x.cpu().sum()`, `torch.zeros(3)`, or names of these."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Call) and (chain_of(node.func) or _last(node.func)).rpartition(".")[2] in _ON_CPU:
            return True
        if isinstance(node, ast.Call) and _makes_cpu_tensor(module, node, scope):
            return True
        if isinstance(node, ast.Call) and _moves(node):
            return False
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and _given_cpu(module, node.id, scope)


def _moves(call: ast.Call) -> bool:
    """Return whether a call is `.cuda()`, or a `.to(...)` that names more than a dtype."""
    name = _last(call.func)
    given = [*call.args, *(k.value for k in call.keywords if k.arg != "dtype")]
    return name == "cuda" or (
        name == "to" and any((chain_of(a) or "").rpartition(".")[2] not in DTYPE_WORDS for a in given)
    )


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _makes_cpu_tensor(module: SemanticModel, call: ast.Call, scope: Scope) -> bool:
    home, _, name = (module.resolve(call.func, scope) or "").rpartition(".")
    return home == "torch" and name in _FACTORIES and not any(k.arg == "device" for k in call.keywords)


def _given_cpu(module: SemanticModel, name: str, scope: Scope) -> bool:
    found = scope.find(name)
    values = [binding.value for binding in found[1]] if found else []
    if not values:
        return False
    return all(isinstance(v, ast.Call) and name not in _names(v) and on_cpu(module, v, scope) for v in values)


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
