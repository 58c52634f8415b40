"""Run with `-`: read standard input in place of a file; `apply` prints the text, rewritten or unchanged."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmigrate.cli import output
from torchmigrate.cli.migration import render
from torchmigrate.cli.output import Progress
from torchmigrate.config.config_file import pack_errors, settings_for
from torchmigrate.diagnostics.finding import Changed, FileResult, Unchanged
from torchmigrate.engine import planner
from torchmigrate.project.discovery import Selection

if TYPE_CHECKING:
    from torchmigrate.cli.selection import Request
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan


_UNNAMED = Path("stdin.py")  # the file in the current directory that the text stands for by default


def run(request: Request, given: dict[str, Any]) -> int:
    """Run `check`, `apply` or `apply --dry-run` on standard input; return the exit status."""
    path = Path(os.path.realpath(request.stdin_filename or _UNNAMED))
    request = replace(request, paths=(path,))
    raw = sys.stdin.buffer.read()
    answer = raw
    try:
        settings = settings_for(request.paths, **given)
        only = planner.text_selection(path, raw)
        plan = _plan(request, settings, only)
        if request.command != "apply":
            return render.tell(plan, request, settings, only)
        answer = next((r.after for r in plan.results if isinstance(r, Changed)), raw)
        return render.tell(plan, request, settings, only, sys.stderr)
    finally:  # even after an error: an editor replaces its text by this output
        if request.command == "apply":
            output.emit([answer], None)


def _plan(request: Request, settings: Settings, only: Selection) -> Plan:
    """Plan the text in the context of its project; the helper is not written, and a note says so."""
    (path,) = request.paths
    mode = "check" if request.command == "check" else "apply"
    with pack_errors(), Progress(shown=not request.quiet) as progress:
        plan = planner.plan_text(path, only.texts[str(path)], settings, mode, progress)
    notes = [*plan.notes, *_unwritten(plan.results, path)]
    return replace(plan, results=list(_of_text(plan.results, only)), notes=notes)


def _of_text(results: Sequence[FileResult], only: Selection) -> Iterator[FileResult]:
    for result in results:
        if isinstance(result, Unchanged):
            yield replace(result, text=only.texts[str(result.path)])
        elif not isinstance(result, Changed) or only.names(str(result.path)):
            yield result


def _unwritten(results: Sequence[FileResult], path: Path) -> Iterator[str]:
    for result in results:
        if isinstance(result, Changed) and result.path != path:
            what = "which this imports," if result.new else "which is outdated,"
            yield (
                f"{os.path.relpath(result.path)}, {what} is not written with `-`;"
                f" `torchmigrate apply {os.path.relpath(path)}` writes it, if run before this is saved"
            )
