"""Where a CUDA tensor type becomes the default, before a migration and after it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project.process_facts import is_cuda_default, makes_default
from torchmigrate.semantic.model import SemanticModel

_CPU = re.compile(r"torch\.(Half|BFloat16|Float|Double)Tensor")
_RESET = (
    "puts the default dtype back, and off CUDA not the default device, which the CUDA type above is there: "
    "`torch.set_default_device(None)` beside it does"
)


def default_tensor_type(site: RuleContext) -> Iterator[Finding]:
    """At the function itself, or at the dtype that the helper's is given."""
    up = site.call if site.qualified == "torch.set_default_tensor_type" else site.module.parent(site.ref)
    if isinstance(up, ast.Call) and is_cuda_default(up, site.scope, site.module.resolver):
        yield site.note(node=up)
    elif isinstance(up, ast.Call) and _is_reset(site.module, up):
        yield site.finding(_RESET, node=up)


def _is_reset(module: SemanticModel, call: ast.Call) -> bool:
    """To a type of the CPU's in a file that makes a CUDA type the default, unless it sets the default device, too."""
    if len(call.args) != 1 or "set_default_device" in module.source.text or not makes_default(module.source.utf8):
        return False
    value = call.args[0]
    name = value.value if isinstance(value, ast.Constant) else module.resolve(value)
    return isinstance(name, str) and _CPU.fullmatch(name) is not None
