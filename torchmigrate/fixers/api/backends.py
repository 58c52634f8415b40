"""Fixers for `torch.backends`: `sdp_kernel(...)`, its successor, CUDA's attention kernels, TF32.

sdp_kernel enables the kernels that its four flags name, all True by default (torch/backends/cuda/__init__.py). Its
fourth flag, `enable_cudnn`, is younger than the successor, so the project's floor decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project.process_facts import first_old
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import mentions
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import argument_of, chain_of

_FLAGS = ("enable_flash", "enable_math", "enable_mem_efficient", "enable_cudnn")
# the kernels' names by flag, in the order in which torch collects them
_BACKENDS = {
    "enable_flash": "FLASH_ATTENTION", "enable_mem_efficient": "EFFICIENT_ATTENTION", "enable_math": "MATH",
    "enable_cudnn": "CUDNN_ATTENTION",
}  # fmt: skip
_FLOOR = ">=2.6"
_ONLY_CUDA = {"EFFICIENT_ATTENTION", "CUDNN_ATTENTION"}
_NONE_LEFT = (
    'no kernel of these runs on the CPU, which raises RuntimeError ("No viable backend for '
    'scaled_dot_product_attention was found"): keep MATH among them, or choose only `if accel.is_nvidia():`'
)


def sdp_kernel(context: RuleContext) -> Iterator[Finding]:
    if context.call is None:
        yield from _named_only(context)
        return
    if context.qualified == "torch.backends.cuda.enable_math_sdp":
        if _is_off(context.call) and _has_flash_off(context.module):
            yield context.note(_NONE_LEFT, blocks=False)
        return
    if context.qualified == "torch.nn.attention.sdpa_kernel":
        chosen = _named(context.module, context.call)
        if chosen and chosen <= _ONLY_CUDA:
            yield context.note(_NONE_LEFT, blocks=False)
        return
    yield _successor(context, context.call)


def _named_only(context: RuleContext) -> Iterator[Finding]:
    """Report `sdp_kernel` where it is not called, as in `partial(torch.backends.cuda.sdp_kernel, **options)`."""
    if context.qualified != "torch.backends.cuda.sdp_kernel" or isinstance(context.parent, ast.alias):
        return
    if mentions(context.module, "nn.attention"):
        yield context.left("its successor stands beside it")
    else:
        yield context.note("deprecated: torch.nn.attention.sdpa_kernel takes a list of SDPBackend", blocks=False)


def _successor(context: RuleContext, call: ast.Call) -> Finding:
    flags = _flags(call)
    if flags is None:
        return context.note(
            "deprecated, and what it chooses is not written out: use `torch.nn.attention.sdpa_kernel([...])`, with "
            "SDPBackend.MATH among them, as the CPU has no kernel for the memory-efficient one or cuDNN's",
            blocks=False,
        )
    names = [name for flag, name in _BACKENDS.items() if flags[flag]]
    if set(names) <= _ONLY_CUDA:
        return context.note(_NONE_LEFT, blocks=False)
    listed = ", ".join(f"torch.nn.attention.SDPBackend.{name}" for name in names)
    successor = f"torch.nn.attention.sdpa_kernel([{listed}])"
    if not context.module.facts.torch_at_least(_FLOOR) or context.module.loses_comment(
        Edit(*context.module.span(call), successor)
    ):
        short = ", ".join(f"SDPBackend.{name}" for name in names)
        return context.note(
            f"deprecated: `torch.nn.attention.sdpa_kernel([{short}])` is the same from torch 2.6 on", blocks=False
        )
    return context.replace(call, successor)


@query
def _has_flash_off(module: SemanticModel) -> bool:
    """Return whether the file switches the flash kernel off: `enable_flash_sdp(False)`."""
    calls = (n for n in module.nodes if isinstance(n, ast.Call) and _is_off(n))
    return any((chain_of(c.func) or "").rpartition(".")[2] == "enable_flash_sdp" for c in calls)


def _is_off(call: ast.Call) -> bool:
    given = [*call.args, *(k.value for k in call.keywords)]
    return len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False


def _flags(call: ast.Call) -> dict[str, bool] | None:
    """Return the value of each flag, if all that are given are True or False."""
    given = dict(zip(_FLAGS, call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
    if len(call.args) + len(call.keywords) != len(given) or not given.keys() <= set(_FLAGS):
        return None
    values = {name: node.value for name, node in given.items() if isinstance(node, ast.Constant)}
    if len(values) != len(given) or not all(isinstance(value, bool) for value in values.values()):
        return None
    return dict.fromkeys(_FLAGS, True) | {str(name): bool(value) for name, value in values.items()}


def _named(module: SemanticModel, call: ast.Call) -> set[str] | None:
    """Return the backends that an `sdpa_kernel(...)` names, or None if one of them is no name of torch's."""
    first = argument_of(call, "backends", 0)
    items = first.elts if isinstance(first, (ast.List, ast.Tuple)) else [first]
    names = [module.resolve(item) if isinstance(item, ast.Attribute) else None for item in items]
    prefix = "torch.nn.attention.SDPBackend."
    if not all(name and name.startswith(prefix) for name in names):
        return None
    return {str(name).removeprefix(prefix) for name in names}


def tf32(context: RuleContext) -> Iterator[Finding]:
    place = _old_beside(context.module)
    if place:
        yield context.note(f"`fp32_precision` here, and {place}: {context.rule.message}")


def _old_beside(module: SemanticModel) -> str:
    for statement in module.scopes.statements:
        found = first_old(statement, module.resolve)
        if found is not None:
            return f"`{module.text(found)}` in line {found.lineno}"
    path, found = module.facts.old_precision.get(str(module.path), ("", None))
    if found is None:
        return ""
    try:
        path = Path(path).relative_to(module.facts.root).as_posix()
    except ValueError:
        path = Path(path).name
    return f"the old switch in {path}, line {found.lineno}"
