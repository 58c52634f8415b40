"""`device_id=` of process groups and `device_ids=` of `barrier`: None where the backend takes no device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.matching.template import spell
from torchmigrate.semantic.device_expr import wrapped
from torchmigrate.semantic.spelling import asks_accelerator, spelled


def device_id(site: RuleContext) -> Iterator[Finding]:
    barrier = site.qualified == "torch.distributed.barrier"
    name, helper = ("device_ids", "accel.device_ids(") if barrier else ("device_id", "accel.output_device(")
    given = next((k.value for k in site.call.keywords if k.arg == name), None) if site.call is not None else None
    if given is not None and not _stays(site, given, helper):
        yield site.fix(wrapped(site.module, given, helper))


def _stays(site: RuleContext, given: ast.expr, helper: str) -> bool:
    """None, the helper's, or a file that asks torch.accelerator and so is portable by its own means."""
    none = isinstance(given, ast.Constant) and given.value is None
    ours = site.module.text(given).startswith(spell(helper, spelled(site.module)))
    native = site.module.facts.settings.style == "native"
    return none or ours or (not native and asks_accelerator(site.module))
