"""`x.double()` where nothing shows that x is on the CPU. One that heads for a device is reported by hazard/float64."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.tensor_type.float64 import NOT_DEVICES, moved
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.torch_use import uses_torch
from torchmigrate.symbols.resolver import chain_of
from torchmigrate.symbols.scope import Scope

_ON_CPU = ("cpu", "numpy", "from_numpy")
_FACTORIES = ("tensor", "zeros", "ones", "empty", "full", "arange", "linspace", "rand", "randn", "randperm", "eye")


def double(site: RuleContext) -> Iterator[Finding]:
    if site.call is None or site.call.args or site.call.keywords or not isinstance(site.ref, ast.Attribute):
        return
    if not uses_torch(site.module):
        return
    if not moved(site.module, site.call) and not on_cpu(site.module, site.ref.value, site.module.scope(site.ref)):
        yield site.note()


def on_cpu(module: SemanticModel, node: ast.expr, scope: Scope) -> bool:
    """`x.cpu().sum()`, `torch.zeros(3)`, and a name that is only ever given such."""
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
    """`.cuda()`, and `.to(...)` unless all that it names is a dtype."""
    name = _last(call.func)
    given = [*call.args, *(k.value for k in call.keywords if k.arg != "dtype")]
    return name == "cuda" or (
        name == "to" and any((chain_of(a) or "").rpartition(".")[2] not in NOT_DEVICES for a in given)
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
