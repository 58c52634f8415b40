"""`x.record_stream(s)`: an allocator's business that CPU and MPS tensors refuse."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site

_ASKS = re.compile(r"\.type\b|is_cuda|is_accelerated|is_nvidia|is_available|\b(mps|cpu)\b")


def record_stream(site: Site) -> Iterator[Finding]:
    tested = any(isinstance(up, ast.If) and _ASKS.search(site.module.text(up.test)) for up in site.module.ancestors(site.node))
    owner = ast.unparse(site.ref.value) if isinstance(site.ref, ast.Attribute) else ""
    if site.call is not None and not tested and owner not in ("self", "super()"):
        yield site.note()
