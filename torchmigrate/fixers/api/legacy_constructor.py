"""Fixers for `torch.Tensor(...)` under a CUDA default tensor type, and for calls that set such a default."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project import process_facts
from torchmigrate.project.process_facts import is_cuda_default, makes_default
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import helper_function, identifiers
from torchmigrate.semantic.values import Values, is_floats, is_size
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.torch_api.names import DTYPE_WORDS, MOVING_METHODS

_TYPED = ", dtype=torch.get_default_dtype()"
_DEVICES = (
    "off CUDA this stays on the CPU (not rewritten: `torch.tensor` would follow the default device that is set as well)"
)


def legacy_constructor(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None or call.func is not context.ref:
        if _is_called_name(context) and _is_under(context.module):
            yield context.note(blocks=False)
    elif _is_under(context.module) and not _leaves(context, call):
        made = _made(context, call)
        if made and _has_device(context.module):
            made = context.note(_DEVICES, blocks=False)
        yield made or context.note(blocks=False)


def _is_under(module: SemanticModel) -> bool:
    """Return whether the file runs with a CUDA type as the default."""
    return str(module.path) in module.facts.under_default.files or process_facts.makes_default(module.source.utf8)


def _has_device(module: SemanticModel) -> bool:
    """Return whether the file runs with a default device as well."""
    return str(module.path) in module.facts.under_default.devices or process_facts.sets_device(module.source.utf8)


def _is_called_name(context: RuleContext) -> bool:
    """Return whether the reference is assigned to a name that is called, as in `Tensor = torch.Tensor`."""
    up = context.module.parent(context.ref)
    names = [t.id for t in up.targets if isinstance(t, ast.Name)] if isinstance(up, ast.Assign) else []
    if not names:
        return False
    calls = (n.func for n in context.module.nodes if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Name) and f.id in names for f in calls)


def _leaves(context: RuleContext, call: ast.Call) -> bool:
    """Return whether the same chain moves the tensor to a device or the CPU: `torch.Tensor(x).view(-1).to(device)`."""
    node: ast.AST = call
    for up in context.module.ancestors(call):
        if isinstance(up, ast.Attribute) and up.attr in MOVING_METHODS:
            return True
        if isinstance(up, ast.Attribute) and up.attr in ("to", "type"):
            return not _is_dtype(context, context.module.parent(up))
        if isinstance(up, ast.Call) and up.func is not node:
            return helper_function(context.module, up.func) == "cast"
        if not isinstance(up, (ast.Attribute, ast.Subscript, ast.Call)):
            return False
        node = up
    return False


def _is_dtype(context: RuleContext, call: ast.AST | None) -> bool:
    """Return whether a `.to(...)` names a dtype alone: `.to(torch.float16)`, `.to(dtype=...)`."""
    if not isinstance(call, ast.Call) or any(k.arg == "device" for k in call.keywords):
        return False
    return not call.args or (chain_of(call.args[0]) or "").rpartition(".")[2] in DTYPE_WORDS


def _made(context: RuleContext, call: ast.Call) -> Finding | None:
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if not call.args:
        return context.rewrite("torch.Tensor()", "torch.empty(0)")
    if len(call.args) > 1 or is_size(context.module, call.args[0]):
        sizes = ", ".join(f"$s{i}" for i in range(len(call.args)))
        return context.rewrite(f"torch.Tensor({sizes})", f"torch.empty({sizes})")
    data = call.args[0]
    if is_floats(data):
        return context.rewrite("torch.Tensor($data)", "torch.tensor($data)")
    statement = context.module.statement(call)
    here = context.scope is context.module.scopes.scope_of[statement]
    if Values(context.module, context.scope).is_data(data, statement if here else None):
        return context.rewrite("torch.Tensor($data)", f"torch.tensor($data{_TYPED})")
    return None


_CPU = re.compile(r"torch\.(Half|BFloat16|Float|Double)Tensor")
_RESET = (
    "puts the default dtype back, and off CUDA not the default device, which the CUDA type above is there: "
    "`torch.set_default_device(None)` beside it does"
)


def default_tensor_type(context: RuleContext) -> Iterator[Finding]:
    """Report a CUDA default tensor type, at torch's function or at the dtype that the helper's function is given."""
    up = context.call if context.qualified == "torch.set_default_tensor_type" else context.module.parent(context.ref)
    if isinstance(up, ast.Call) and is_cuda_default(up, context.scope, context.module.resolver):
        yield context.note(node=up)
    elif isinstance(up, ast.Call) and _is_reset(context.module, up):
        yield context.finding(_RESET, node=up)


def _is_reset(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call sets a CPU type as default, in a file that sets a CUDA type and no default device."""
    if len(call.args) != 1 or "set_default_device" in identifiers(module) or not makes_default(module.source.utf8):
        return False
    value = call.args[0]
    name = value.value if isinstance(value, ast.Constant) else module.resolve(value)
    return isinstance(name, str) and _CPU.fullmatch(name) is not None
