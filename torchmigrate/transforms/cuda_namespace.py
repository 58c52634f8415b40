"""What of `torch.cuda` no other rule speaks about: reported where it would fail, silent where it is harmless."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site

# types and modules that exist on every build; naming them asks for nothing
_HARMLESS = {
    "amp", "Stream", "Event", "OutOfMemoryError", "device", "nvtx", "memory", "random", "streams", "comm", "nccl", "profiler",
    "is_initialized", "is_bf16_supported", "is_tf32_supported", "has_half", "has_magma", "graphs", "sparse", "jiterator", "tunable",
}  # fmt: skip


def cuda_namespace(site: Site) -> Iterator[Finding]:
    assert site.qualified is not None
    name = site.qualified.removeprefix("torch.cuda.")
    if name in _HARMLESS and site.call is None:
        return
    if site.qualified.startswith("torch.cuda.amp."):
        return
    imported = isinstance(site.parent, (ast.alias, ast.Import, ast.ImportFrom))
    if not imported:
        yield site.note(f"`{site.qualified}`: {site.rule.message}")
