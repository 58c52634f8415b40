"""What starts the accelerator's driver when a module is imported: a process that forks afterwards cannot use it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.torch_use import is_imported
from torchmigrate.symbols.scope import FUNCTIONS


def import_probe(site: RuleContext) -> Iterator[Finding]:
    if site.call is None:
        return
    below: ast.AST = site.node
    for up in site.module.ancestors(site.node):
        if isinstance(up, ast.Lambda) or (isinstance(up, FUNCTIONS) and below in up.body):
            return
        if isinstance(up, ast.If) and "__name__" in ast.unparse(up.test):
            return
        below = up
    if _is_imported(site.module):
        yield site.note()


@query
def _is_imported(module: SemanticModel) -> bool:
    """A file with a relative import is a part of a package: it cannot be run itself."""
    imports = (s for s in module.scopes.statements if isinstance(s, ast.ImportFrom))
    return is_imported(module) or any(s.level for s in imports)
