"""Profilers that are told which device to record: they record nothing of others, and alone they refuse to start."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext

_OLD = (
    "records CUDA alone and warns elsewhere: torch.profiler.profile() without `activities=` records what the build can"
)


def profiler(site: RuleContext) -> Iterator[Finding]:
    if isinstance(site.parent, ast.alias):
        return
    if ".ProfilerActivity." in (site.qualified or ""):
        if not _is_choice(site):
            yield site.note()
    elif site.call is not None:
        given = {k.arg: k.value for k in site.call.keywords}
        if "use_cuda" in given and not _is(given["use_cuda"], False, None):
            yield site.note(f"`use_cuda=` {_OLD}")
        elif _is(given.get("use_device"), "cuda"):
            yield site.note(f"`use_device=` {_OLD}")


def _is_choice(site: RuleContext) -> bool:
    """Whether the file names two kinds of device, or asks which the build supports."""
    text = site.module.source.text
    owner = site.module.text(site.ref.value) if isinstance(site.ref, ast.Attribute) else "ProfilerActivity"
    kinds = re.findall(rf"(?:{re.escape(owner)}|ProfilerActivity)\.(CUDA|XPU|MTIA|HPU|PrivateUse1)\b", text)
    return len(set(kinds)) > 1 or "supported_activities" in text


def _is(node: ast.expr | None, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is v or node.value == v for v in values)
