"""Migrate small projects in this process, many of them with rules that are read once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from six_worlds.running import Project
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed
from torchmigrate.engine import planner, worker
from torchmigrate.rewriting.visitor import dispatch_table
from torchmigrate.rules import packs


class MigrationFailed(Exception):
    """A file of a project could not be migrated."""


@contextlib.contextmanager
def rules_read_once() -> Iterator[None]:
    """Let each run of the planner use the same rules and dispatch tables."""
    ruleset = packs.load(cases=False)
    tables: dict[tuple[str, ...], Any] = {}

    def table(rules: Any) -> Any:
        key = tuple(rules.rules)
        if key not in tables:
            tables[key] = dispatch_table(rules)
        return tables[key]

    with (
        mock.patch.object(packs, "load", lambda *args, **options: ruleset),
        mock.patch.object(worker, "dispatch_table", table),
    ):
        yield


def migrated(project: Project) -> Project:
    """Return a project as `torchmigrate apply` leaves it; raises MigrationFailed."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None)).resolve()
    try:
        for name, text in project.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        plan = planner.plan([root], Settings(root=root), 1, "apply")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if failed := [f"{r.path.name}: {r.error}" for r in plan.results if isinstance(r, Failed)]:
        raise MigrationFailed("; ".join(failed))
    written = {r.path.relative_to(root).as_posix(): r.after.decode() for r in plan.results if isinstance(r, Changed)}
    return replace(project, files={**project.files, **written})
