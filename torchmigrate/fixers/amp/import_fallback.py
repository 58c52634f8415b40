"""Shared: `try: from torch.cuda.amp import autocast`, and something of one's own under that name where that fails."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.symbols.resolver import chain_of


def import_fallback(site: RuleContext, helpers: Mapping[str, str]) -> Iterator[Finding]:
    """The names may mean either, so they keep their places: they are given the helper's functions instead."""
    node, up = site.node, site.parent
    if not isinstance(node, ast.ImportFrom) or not isinstance(up, ast.Try) or node not in up.body or node.level:
        return
    made = {a.asname or a.name: helpers.get(f"{node.module}.{a.name}", "") for a in node.names}
    own = all(len(site.scope.names.get(name, ())) > 1 for name in made)
    if own and all(made.values()) and is_only_called(site.module, made):
        yield site.replace(node, f"{', '.join(made)} = {', '.join(made.values())}")


def is_only_called(module: SemanticModel, names: Collection[str]) -> bool:
    """Or handed on, which stands for a call: `amp_autocast=amp_autocast`."""
    used: set[int] = set()
    for call in (n for n in module.nodes if isinstance(n, ast.Call)):
        tests = chain_of(call.func) in ("isinstance", "issubclass")
        used |= {id(call.func), *(id(a) for a in (*call.args, *(k.value for k in call.keywords)) if not tests)}
    loads = (n for n in module.nodes if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load))
    return all(id(n) in used for n in loads)
