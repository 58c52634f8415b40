"""`x.pin_memory()` raises without an accelerator; `DataLoader(pin_memory=True)` only warns and leaves unpinned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site


def pin_memory(site: Site) -> Iterator[Finding]:
    call = site.call
    if call is None:
        return
    if isinstance(site.ref, ast.Attribute) and site.ref.attr == "pin_memory":
        if not call.args and not call.keywords and ast.unparse(site.ref.value) not in ("self", "cls"):
            yield from filter(None, (site.rewrite("$x.pin_memory()", "accel.pin($x)"),))
        return
    for keyword in call.keywords:
        if keyword.arg == "pin_memory" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
            yield site.replace(keyword.value, "accel.pin_memory()")
