"""Fixers for `torch.Tensor(...)` under a CUDA default tensor type (T12), and for calls that set such a default.

Off CUDA, a default device does not reach `torch.Tensor(...)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.hazard.float64 import NOT_DEVICES
from torchmigrate.project import process_facts
from torchmigrate.project.process_facts import is_cuda_default, makes_default
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import identifiers
from torchmigrate.semantic.spelling import helper_function
from torchmigrate.semantic.values import Values, is_floats, is_size
from torchmigrate.syntax.resolver import chain_of

_TYPED = ", dtype=torch.get_default_dtype()"
_DEVICES = (
    "off CUDA this stays on the CPU (not rewritten: `torch.tensor` would follow the default device that is set as well)"
)
_LEAVES = {"cuda", "cpu", "numpy", "tolist", "item", "type_as"}


def legacy_constructor(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None or call.func is not site.ref:
        if _is_called_name(site) and _is_under(site.module):
            yield site.note(blocks=False)
    elif _is_under(site.module) and not _leaves(site, call):
        made = _made(site, call)
        if made and _has_device(site.module):
            made = site.note(_DEVICES, blocks=False)
        yield made or site.note(blocks=False)


def _is_under(module: SemanticModel) -> bool:
    """Return whether the file runs with a CUDA type as the default."""
    return str(module.path) in module.facts.under_default.files or process_facts.makes_default(module.source.utf8)


def _has_device(module: SemanticModel) -> bool:
    """Return whether the file runs with a default device as well."""
    return str(module.path) in module.facts.under_default.devices or process_facts.sets_device(module.source.utf8)


def _is_called_name(site: RuleContext) -> bool:
    """Return whether the reference is assigned to a name that is called, as in `Tensor = torch.Tensor`."""
    up = site.module.parent(site.ref)
    names = [t.id for t in up.targets if isinstance(t, ast.Name)] if isinstance(up, ast.Assign) else []
    if not names:
        return False
    calls = (n.func for n in site.module.nodes if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Name) and f.id in names for f in calls)


def _leaves(site: RuleContext, call: ast.Call) -> bool:
    """Return whether the same chain moves the tensor to a device or the CPU: `torch.Tensor(x).view(-1).to(device)`."""
    node: ast.AST = call
    for up in site.module.ancestors(call):
        if isinstance(up, ast.Attribute) and up.attr in _LEAVES:
            return True
        if isinstance(up, ast.Attribute) and up.attr in ("to", "type"):
            return not _is_dtype(site, site.module.parent(up))
        if isinstance(up, ast.Call) and up.func is not node:
            return helper_function(site.module, up.func) == "cast"
        if not isinstance(up, (ast.Attribute, ast.Subscript, ast.Call)):
            return False
        node = up
    return False


def _is_dtype(site: RuleContext, call: ast.AST | None) -> bool:
    """Return whether a `.to(...)` names a dtype alone: `.to(torch.float16)`, `.to(dtype=...)`."""
    if not isinstance(call, ast.Call) or any(k.arg == "device" for k in call.keywords):
        return False
    return not call.args or (chain_of(call.args[0]) or "").rpartition(".")[2] in NOT_DEVICES


def _made(site: RuleContext, call: ast.Call) -> Finding | None:
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if not call.args:
        return site.rewrite("torch.Tensor()", "torch.empty(0)")
    if len(call.args) > 1 or is_size(site.module, call.args[0]):
        sizes = ", ".join(f"$s{i}" for i in range(len(call.args)))
        return site.rewrite(f"torch.Tensor({sizes})", f"torch.empty({sizes})")
    data = call.args[0]
    if is_floats(data):
        return site.rewrite("torch.Tensor($data)", "torch.tensor($data)")
    statement = site.module.statement(call)
    here = site.scope is site.module.scopes.scope_of[statement]
    if Values(site.module, site.scope).is_data(data, statement if here else None):
        return site.rewrite("torch.Tensor($data)", f"torch.tensor($data{_TYPED})")
    return None


_CPU = re.compile(r"torch\.(Half|BFloat16|Float|Double)Tensor")
_RESET = (
    "puts the default dtype back, and off CUDA not the default device, which the CUDA type above is there: "
    "`torch.set_default_device(None)` beside it does"
)


def default_tensor_type(site: RuleContext) -> Iterator[Finding]:
    """Report a CUDA default tensor type, at torch's function or at the dtype that the helper's function is given."""
    up = site.call if site.qualified == "torch.set_default_tensor_type" else site.module.parent(site.ref)
    if isinstance(up, ast.Call) and is_cuda_default(up, site.scope, site.module.resolver):
        yield site.note(node=up)
    elif isinstance(up, ast.Call) and _is_reset(site.module, up):
        yield site.finding(_RESET, node=up)


def _is_reset(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call makes one of the CPU's types the default in a file that also makes a CUDA type the default,
    and sets no default device."""
    if len(call.args) != 1 or "set_default_device" in identifiers(module) or not makes_default(module.source.utf8):
        return False
    value = call.args[0]
    name = value.value if isinstance(value, ast.Constant) else module.resolve(value)
    return isinstance(name, str) and _CPU.fullmatch(name) is not None
