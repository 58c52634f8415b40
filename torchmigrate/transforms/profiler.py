"""Profilers that are told to record CUDA: they record nothing of other devices, and alone they refuse to start."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site


def profiler(site: Site) -> Iterator[Finding]:
    if isinstance(site.parent, ast.alias):
        return
    if (site.qualified or "").endswith("ProfilerActivity.CUDA"):
        if "ProfilerActivity.XPU" not in site.module.source.text:
            yield site.note()
    elif site.call is not None and any(k.arg == "use_cuda" and not _is_false(k.value) for k in site.call.keywords):
        yield site.note(
            "`use_cuda=` records CUDA alone: `use_device=accel.device_type()` names the device (torch >= 2.1)"
        )


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
