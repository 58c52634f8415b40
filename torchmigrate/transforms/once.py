"""Shared: what is said once for a whole file, or only of projects that are for devices."""

from __future__ import annotations

import ast
from collections.abc import Collection

from torchmigrate.memo import once
from torchmigrate.module import Module


def first_call(module: Module, names: Collection[str]) -> ast.Call | None:
    """The first call in the file of one of these qualified names."""
    return _first_call(module, frozenset(names))


@once
def _first_call(module: Module, names: frozenset[str]) -> ast.Call | None:
    calls = (n for n in module.nodes if isinstance(n, ast.Call))
    return min((c for c in calls if module.resolve(c.func) in names), key=module.span, default=None)


def is_for_devices(module: Module) -> bool:
    """Whether the project speaks of CUDA, or did before it was migrated: then it has the helper."""
    facts = module.facts
    return facts.mentions_cuda or any(path.endswith(f"/{facts.helper}.py") for path in facts.files)
