"""Activation checkpointing of something random: MPS draws other numbers when it is computed again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel, query

_RANDOM = re.compile(
    r"[Dd]rop_?([Oo]ut|[Pp]ath)|\b(torch|F)\.(rand|bernoulli|normal)|\b(rand_like|randn_like|rrelu|RReLU)\b"
)


def mps_checkpoint(site: RuleContext) -> Iterator[Finding]:
    """Once per file, where it draws random numbers and has them kept, as they are unless one says otherwise."""
    module = site.module
    if site.call is None or not module.facts.mentions_cuda or not _RANDOM.search(module.source.text):
        return
    if _first(module, tuple(site.rule.on)) is site.call and "torch.mps" not in module.source.text:
        yield site.note()


@query
def _first(module: SemanticModel, names: tuple[str, ...]) -> ast.Call | None:
    """The first that keeps the state of the generators."""
    calls = [n for n in module.nodes if isinstance(n, ast.Call) and module.resolve(n.func) in names]
    return min((call for call in calls if not _is_off(call)), key=module.span, default=None)


def _is_off(call: ast.Call) -> bool:
    return any(
        k.arg == "preserve_rng_state" and isinstance(k.value, ast.Constant) and not k.value.value for k in call.keywords
    )
