"""Activation checkpointing of something random: MPS draws other numbers when it is computed again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site

_RANDOM = re.compile(
    r"[Dd]rop_?([Oo]ut|[Pp]ath)|\b(torch|F)\.(rand|bernoulli|normal)|\b(rand_like|randn_like|rrelu|RReLU)\b"
)


def mps_checkpoint(site: Site) -> Iterator[Finding]:
    """Once per file, where it draws random numbers and has them kept, as they are unless one says otherwise."""
    module = site.module
    if site.call is None or not module.facts.mentions_cuda or not _RANDOM.search(module.source.text):
        return
    calls = [n for n in module.nodes if isinstance(n, ast.Call) and module.resolve(n.func) in site.rule.on]
    kept = [call for call in calls if not _is_off(call)]
    if min(kept, key=module.span, default=None) is site.call and "torch.mps" not in module.source.text:
        yield site.note()


def _is_off(call: ast.Call) -> bool:
    return any(
        k.arg == "preserve_rng_state" and isinstance(k.value, ast.Constant) and not k.value.value for k in call.keywords
    )
