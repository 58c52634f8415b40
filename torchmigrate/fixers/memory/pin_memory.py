"""`x.pin_memory()` raises without an accelerator.

`DataLoader(pin_memory=True)` stays: without an accelerator it only warns and leaves the batch unpinned (measured), and
on the others the loader knows best, so an edit would gain nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext


def pin_memory(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None or not isinstance(site.ref, ast.Attribute):
        return
    owner = ast.unparse(site.ref.value)
    if owner in ("self", "cls", "super()"):
        return
    if call.args or call.keywords:
        yield site.note(
            "`pin_memory(device)` raises without an accelerator, and its argument is deprecated: leave it out"
        )
    else:
        yield site.rewrite("$x.pin_memory()", "accel.pin($x)") or site.note()
