"""`x.record_stream(s)`: an allocator's business that CPU and MPS tensors refuse."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext


def record_stream(site: RuleContext) -> Iterator[Finding]:
    owner = ast.unparse(site.ref.value) if isinstance(site.ref, ast.Attribute) else ""
    if site.call is not None and owner not in ("self", "super()"):
        yield site.rewrite("$x.record_stream($$s)", "accel.record_stream($x, $$s)") or site.note()
