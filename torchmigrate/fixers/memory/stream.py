"""Streams of torch.cuda: the helper's are CUDA's own there, the backend's or the one queue elsewhere (T19)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.amp.helper_class import helper_class
from torchmigrate.fixers.context import RuleContext

_RAW = ("cuda_stream", "ptr")  # the handle that another CUDA library takes


def stream(site: RuleContext) -> Iterator[Finding]:
    name = (site.qualified or "").rpartition(".")[2]
    up = site.parent
    if isinstance(up, ast.Attribute) and up.attr in _RAW:
        yield site.note(f"`.{up.attr}` is CUDA's own handle, which other devices' streams do not have")
    elif name == "Stream":
        yield from helper_class(site)
    elif not isinstance(up, ast.alias):
        yield site.replace(site.ref, f"accel.{'stream' if name == 'StreamContext' else name}")
