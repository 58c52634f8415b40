"""Functions that come down to an operator without an MPS kernel. The rule's `on` lists those of torch 2.13, from
torch's own list of operators (native_functions.yaml); tests run each on a simulated MPS."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.tensor_type.double import on_cpu
from torchmigrate.semantic.torch_use import uses_torch

# the first release whose list has an MPS kernel, where a later one than 2.13 was read
_SINCE = {
    "torch.linalg.eigh": "2.14", "torch.linalg.eigvalsh": "2.14", "torch.linalg.svdvals": "2.14",
    "torch.linalg.matrix_rank": "2.14", "torch.linalg.cond": "2.14", "torch.nuclear_norm": "2.14",
    "torch.nn.functional.ctc_loss": "2.14", "torch.nn.CTCLoss": "2.14", "torch.poisson": "2.14",
    "torch.distributions.Poisson": "2.14", "torch.geqrf": "2.14", "torch.take": "2.15", ".put_": "2.15",
}  # fmt: skip
_FACTORIES = {"torch.logspace"}


def mps_operator(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None:
        return
    if site.qualified is None and not uses_torch(site.module):
        return
    name = site.qualified or (f".{site.ref.attr}" if isinstance(site.ref, ast.Attribute) else "")
    since = _SINCE.get(name)
    if (since and site.module.facts.torch_at_least(f">={since}")) or _needs_none(site, name, call):
        return
    when = f"before torch {since}" if since else "as of torch 2.13"
    shown = name if site.qualified else f"Tensor{name}"
    yield site.note(f"`{shown}` has no MPS kernel {when}: {site.rule.message}")


def _needs_none(site: RuleContext, name: str, call: ast.Call) -> bool:
    """Whether what it works on is certainly on the CPU: a factory makes it there unless it is given a device."""
    if name in _FACTORIES:
        return not any(k.arg == "device" for k in call.keywords)
    if name.endswith(("AdaptiveAvgPool3d", "adaptive_avg_pool3d")) and _is_mean(name, call):
        return True
    if name.startswith("torch.nn.") and not name.startswith("torch.nn.functional."):
        return False
    values = [call.func.value] if name.startswith(".") and isinstance(call.func, ast.Attribute) else call.args[:1]
    values += [k.value for k in call.keywords if k.arg in ("input", "A", "rate", "probs", "total_count")]
    return bool(values) and all(
        isinstance(value, ast.Constant) or on_cpu(site.module, value, site.scope) for value in values
    )


def _is_mean(name: str, call: ast.Call) -> bool:
    """Pooling to one element is a mean, which every backend has."""
    at = 1 if name.endswith("adaptive_avg_pool3d") else 0
    given = [*(k.value for k in call.keywords if k.arg == "output_size"), *call.args[at:]]
    size = given[0] if given else None
    sizes = size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size]
    return all(isinstance(s, ast.Constant) and s.value == 1 for s in sizes)
