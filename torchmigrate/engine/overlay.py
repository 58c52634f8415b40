"""One text in place of a file of a project: what standard input and editors ask about. The facts are the project's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.diagnostics.finding import Skipped
from torchmigrate.project.discovery import Selection

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.engine.worker import Progress


def selection(path: Path, raw: bytes) -> Selection:
    """This file alone, with this text. The path is a real one; the file need not exist."""
    return Selection(frozenset({str(path)}), {str(path): raw})


def plan(
    path: Path,
    raw: bytes,
    settings: Settings,
    mode: str,
    on_progress: Progress | None = None,
    helpers: Mapping[str, bytes] | None = None,
) -> Plan:
    """What a run for the path alone would find, did the file hold `raw`; excluded files stay so. `helpers`: texts of
    helpers that are not saved yet, by path. Raises PackError and UserError."""
    from torchmigrate.engine import planner
    from torchmigrate.engine.planner import Plan
    from torchmigrate.project import discovery

    if pattern := discovery.exclusion(path, settings):
        return Plan([Skipped(path, f"excluded by `{pattern}`")], 1, [])
    only = Selection(frozenset({str(path)}), {**(helpers or {}), str(path): raw})
    return planner.plan([path], settings, 1, mode, on_progress, only)
