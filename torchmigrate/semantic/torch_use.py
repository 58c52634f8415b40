"""Whether and how a file uses torch."""

from __future__ import annotations

import ast
from collections.abc import Collection

from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.torch_api.libraries import BUILT_ON_TORCH


def first_call(module: SemanticModel, names: Collection[str]) -> ast.Call | None:
    """The first call in the file of one of these qualified names."""
    return _first_call(module, frozenset(names))


@query
def _first_call(module: SemanticModel, names: frozenset[str]) -> ast.Call | None:
    calls = (n for n in module.nodes if isinstance(n, ast.Call))
    return min((c for c in calls if module.resolve(c.func) in names), key=module.span, default=None)


def is_for_devices(module: SemanticModel) -> bool:
    """Whether the project speaks of CUDA, or did before it was migrated: then it has the helper."""
    facts = module.facts
    return facts.mentions_cuda or any(path.endswith(f"/{facts.helper}.py") for path in facts.files)


@query
def uses_torch(module: SemanticModel) -> bool:
    """Whether the file imports torch, something built on it, or a module of the project."""
    for bindings in module.scopes.module.names.values():
        for binding in bindings:
            name = binding.qualified or ""
            if name.split(".")[0] in BUILT_ON_TORCH or (binding.local and _is_local(module, binding.local)):
                return True
    nested = (b for scope in module.scopes for bindings in scope.names.values() for b in bindings)
    return bool(module.scopes.module.stars) or any(b.qualified == "torch" for b in nested)


def _is_local(module: SemanticModel, local: tuple[int, str, str]) -> bool:
    return bool(local[0]) or module.facts.index.find(str(module.path), *local) is not None


def is_imported(module: SemanticModel) -> bool:
    """Whether another file of the project imports this one: then its top level must not probe (T14)."""
    path = str(module.path)
    return bool(module.facts.index.importers.get(path)) or path.endswith("__init__.py")
