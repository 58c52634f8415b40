"""`get_device_capability` and `get_device_properties`: a test of a capability is NVIDIA's and stays (T5, T11).

ROCm's (9, x) is no Hopper, other accelerators have none, and XPU's properties have no `major`. Where nothing is
compared the helper answers: the same on CUDA, (0, 0) elsewhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext

_GATE = re.compile(r"\.(major|minor|multi_processor_count|gcnArchName)\b")


def properties(site: RuleContext) -> Iterator[Finding]:
    assert site.qualified is not None
    name = site.qualified.rpartition(".")[2]
    if _is_gate(site, name):
        yield site.note("a capability is NVIDIA's: keep it behind `accel.is_nvidia()`, or ask for what it stands for")
        return
    yield site.rewrite(site.qualified, f"accel.{name}", site.ref) or site.note()


def _is_gate(site: RuleContext, name: str) -> bool:
    if any(isinstance(up, ast.Compare) for up in site.module.ancestors(site.node)):
        return True
    owner = site.module.function(site.node) or site.module.statement(site.node)
    return name == "get_device_properties" and bool(_GATE.search(site.module.text(owner)))
