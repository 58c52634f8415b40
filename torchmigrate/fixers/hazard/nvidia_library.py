"""Imports of libraries that run on NVIDIA's devices alone, once per library and file; a guarded import is fine."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.torch_api.libraries import LIBRARIES


def nvidia_library(site: RuleContext) -> Iterator[Finding]:
    node = site.node
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    if _guarded(site):
        return
    for library in dict.fromkeys(_libraries(node)):
        if library in LIBRARIES and _first(site, library) is node and not _own(site, library):
            yield site.note(
                f"`{library}` needs NVIDIA's software: {LIBRARIES[library]}; import it where it is used, in a `try`"
            )


def _libraries(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [] if node.level else [(node.module or "").partition(".")[0]]
    return [a.name.partition(".")[0] for a in node.names]


def _own(site: RuleContext, library: str) -> bool:
    """Whether the project is that library."""
    module = site.module
    return bool(module.facts.files) and module.facts.index.find(str(module.path), 0, library, "") is not None


def _first(site: RuleContext, library: str) -> ast.stmt | None:
    imports = (s for s in site.module.scopes.statements if isinstance(s, (ast.Import, ast.ImportFrom)))
    return next((s for s in imports if library in _libraries(s)), None)


def _guarded(site: RuleContext) -> bool:
    """In a `try`, under a condition, or in a function: whoever wrote that thought of machines without it."""
    return any(
        isinstance(up, (ast.Try, ast.If, ast.FunctionDef, ast.AsyncFunctionDef))
        for up in site.module.ancestors(site.node)
    )
