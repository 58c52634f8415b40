"""`device_ids=`, `output_device=` of DistributedDataParallel: None off multi-device backends (T6)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.device_expr import wrapped
from torchmigrate.semantic.spelling import asks_accelerator, helper_function, spelled
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.expression import spell


def device_ids(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None:
        return
    given = {k.arg: k.value for k in call.keywords}
    if len(call.args) > 1 and not any(isinstance(a, ast.Starred) for a in call.args[:2]):
        given["device_ids"] = call.args[1]
    for name in ("device_ids", "output_device"):
        node = given.get(name)
        if node is not None and not _is_none(node) and not _is_ours(site, node):
            yield site.fix(_wrapped(site, node, name))


def _wrapped(site: RuleContext, node: ast.expr, name: str) -> list[Edit]:
    """`[rank]` to `accel.device_ids(rank)`; a longer list, or one with comments, becomes the argument as it is."""
    start, end = site.module.span(node)
    opening = spell(f"accel.{name}(", spelled(site.module))
    if isinstance(node, ast.List) and len(node.elts) == 1:
        inner = site.module.span(node.elts[0])
        around = site.module.source.utf8[start : inner[0]] + site.module.source.utf8[inner[1] : end]
        if around.replace(b" ", b"") in (b"[]", b"[,]"):
            return [Edit(start, inner[0], opening), Edit(inner[1], end, ")")]
    return wrapped(site.module, node, opening)


def _is_ours(site: RuleContext, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and helper_function(site.module, node.func) is not None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


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
