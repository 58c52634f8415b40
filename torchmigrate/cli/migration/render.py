"""Plan a command, and print its reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from torchmigrate.base.text import counted, print_fitted, visible
from torchmigrate.cli import output, selection
from torchmigrate.cli.output import Progress
from torchmigrate.cli.selection import Request
from torchmigrate.config.config_file import pack_errors
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult
from torchmigrate.formats.model import Report

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.project.discovery import Selection


def planned(request: Request, settings: Settings, only: Selection) -> Plan:
    """Return the plan of the command: its findings, and the changes that it would write."""
    from torchmigrate.engine import planner

    plan: Callable[..., Plan] = planner.plan
    is_sarif = any(each.output_format.value == "sarif" for each in selection.reports(request))
    if not is_sarif and any(path.is_dir() for path in request.paths):
        from torchmigrate.engine import plan_cache

        plan = plan_cache.plan  # SARIF's fixes need the project context, which a cached plan lacks
    mode = "check" if request.command == "check" else "apply"
    with pack_errors(), Progress(shown=not request.quiet) as progress:
        return plan(request.paths, settings, request.jobs, mode, progress, only)


def _standing(report: Report, request: Request, settings: Settings, only: Selection) -> tuple[Report, Plan]:
    """Return a `check` of the files as they stand now, for formats that name places in them and offer fixes."""
    plan = planned(replace(request, command="check"), settings, only)
    failed = {result.path: result for result in report.results if isinstance(result, Failed)}
    results = [result for result in plan.results if result.path not in failed]
    return replace(report, results=[*results, *failed.values()], command="check"), plan


def _from_project(report: Report, request: Request, settings: Settings) -> Report:
    """Return the report as people read it: where files lie elsewhere, their paths are relative to the project."""
    tops = [Path(os.path.realpath(path)) for path in request.paths]
    if all(top.is_relative_to(report.here) for top in tops) or not all(
        top.is_relative_to(settings.root) for top in tops
    ):
        return report
    named = [result for result, _ in report.findings] + [*report.changed, *report.failed]
    if any(result.path != settings.root for result in named):
        request.say(f"note: paths are relative to {settings.root}")
    return replace(report, here=settings.root)


def _order(plan: Plan, request: Request, settings: Settings) -> Sequence[str]:
    """Return the files that the project's first program reads, which come first in what is left."""
    from torchmigrate.project import import_graph

    known = import_graph.Programs(plan.facts.index) if plan.facts else None
    known = known or import_graph.of_project(settings.root, request.paths, settings)
    first = known.first()
    return known.reads(first) if first else ()


def _ignored_copies(plan: Plan, here: Path) -> Iterator[str]:
    """Yield what to do with copies of the helper that git ignores, so that a clone would lack them."""
    added = [result.path for result in plan.results if isinstance(result, Changed) and result.new]
    if not added:
        return  # a clean file loads nothing of git's
    from torchmigrate.vcs import git_tree

    for repository, paths in git_tree.by_repository(added):
        for path in filter(repository.ignores, paths) if repository else ():
            name = os.path.relpath(path, here)
            yield f"git ignores {name}, so that a clone would lack it: `git add -f {name}`"


def tell(plan: Plan, request: Request, settings: Settings, only: Selection, stream: TextIO | None = None) -> int:
    """Print the report to stdout or `stream`, and return the exit status."""
    results: Sequence[FileResult] = plan.results
    if request.baseline:
        from torchmigrate.cli.migration import baseline

        results = baseline.settle(results, request, settings, only)
    here = Path(os.path.realpath(os.curdir))
    report = Report(results, plan.files_seen, request.command, here, settings.backends, plan.others)
    if request.command != "check" and len({result.path for result, _ in report.findings}) > 1:
        report = replace(report, order=_order(plan, request, settings))
    told = _from_project(report, request, settings)
    if notes := [*plan.notes, *_ignored_copies(plan, here)]:
        request.say(*(f"note: {note}" for note in notes))
    standing = None
    for each in selection.reports(request):
        shown, facts = told if each.output_format.value in ("text", "concise", "diff") else report, plan.facts
        if request.command != "check" and each.output_format.value in output.STANDING:
            standing = standing or _standing(report, request, settings, only)
            shown, facts = standing[0], standing[1].facts
        output.emit(output.body(shown, each, settings, facts), each.output, stream)
    if request.verbose:
        request.say(*output.details(told))
        if plan.checked[0]:
            request.say(f"{counted(plan.checked[0], 'edit')} checked in six worlds, {plan.checked[1]} held back")
    if request.since is None and not request.staged:
        request.say(*output.unread(told, request.verbose))
    for failed in report.failed:
        print_fitted(f"error: {visible(told.name(failed.path))}: {visible(failed.error)}")
    request.say(told.summary())
    return report.exit_code(request.exit_zero)
