"""`apply` on a copy of the project, in this process; and which line came from where."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Status
from torchmigrate.diagnostics.results import Changed, FileResult, Unchanged, failures
from torchmigrate.engine import planner
from torchmigrate.verify.workspace.line_map import Origins, origins
from torchmigrate.verify.workspace.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Migration:
    """What was rewritten in the copy. `notes` and `errors` are lines for people; paths in them are relative to the
    copy."""

    origins: Origins
    files: int
    edits: int
    held: int
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def migrate(sandbox: Sandbox, settings: Settings) -> Migration:
    """Rewrite the copy in place. `settings` are those of the original. Raises PackError, UserError."""
    root = sandbox.rewritten
    target = sandbox.project.within(root, sandbox.project.path)
    plan = planner.plan([target], _moved(settings, sandbox), 1, "apply")
    changes = [result for result in plan.results if isinstance(result, Changed)]
    for change in changes:
        _write(change.path, change.after)
    failed = [f"{f.path.relative_to(root)}: {f.error}" for f in failures(plan.results)]
    applied = sum(len(change.applied) for change in changes)
    rewritten = sum(not change.new for change in changes)
    return Migration(origins(root, changes), rewritten, applied, _held(plan.results), tuple(plan.notes), tuple(failed))


def _moved(settings: Settings, sandbox: Sandbox) -> Settings:
    """Patterns are relative to `root`, which must be where the copy has it."""
    anchor, copy = sandbox.project.anchor, sandbox.rewritten
    root = Path(os.path.realpath(settings.root))
    if root.is_relative_to(anchor):
        return replace(settings, root=copy / root.relative_to(anchor))
    up = len(anchor.relative_to(root).parts)  # settings above the repository: as many steps up from the copy
    return replace(settings, root=copy.parents[up - 1] if up <= len(copy.parents) else copy)


def _write(path: Path, content: bytes) -> None:
    if path.exists() and not os.access(path, os.W_OK):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    path.write_bytes(content)


def _held(results: Sequence[FileResult]) -> int:
    kept = (r for r in results if isinstance(r, (Changed, Unchanged)))
    return sum(finding.status is Status.HELD for result in kept for finding in result.findings)
