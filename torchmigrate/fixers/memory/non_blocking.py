"""`x.to(device, non_blocking=True)`: MPS reads the copy before it is there (pytorch #139550, #189690)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.torch_use import uses_torch


def non_blocking(site: RuleContext) -> Iterator[Finding]:
    if site.call is None or not uses_torch(site.module):
        return
    for keyword in site.call.keywords:
        if keyword.arg == "non_blocking" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
            yield site.replace(keyword.value, "accel.non_blocking()")
