"""TF32 by two interfaces at once: reported where the new one is set and the old one is in the same process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project.process_facts import first_old
from torchmigrate.semantic.model import SemanticModel


def tf32(site: RuleContext) -> Iterator[Finding]:
    place = _old_beside(site.module)
    if place:
        yield site.note(f"`fp32_precision` here, and {place}: {site.rule.message}")


def _old_beside(module: SemanticModel) -> str:
    for statement in module.scopes.statements:
        found = first_old(statement, module.resolve)
        if found is not None:
            return f"`{module.text(found)}` in line {found.lineno}"
    path, found = module.facts.old_precision.get(str(module.path), ("", None))
    if found is None:
        return ""
    try:
        path = Path(path).relative_to(module.facts.root).as_posix()
    except ValueError:
        path = Path(path).name
    return f"the old switch in {path}, line {found.lineno}"
