"""`apply`, `check` and `undo`: plan, guard, save, write, report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from torchmigrate.cli import before_commit, dirty, options, output
from torchmigrate.cli.settings import cores, pack_errors, settings_for
from torchmigrate.edits import Changed, Failed, FileResult
from torchmigrate.errors import Interrupted, UserError
from torchmigrate.progress import Progress
from torchmigrate.report import Report
from torchmigrate.visible import visible, visible_lines

if TYPE_CHECKING:
    from torchmigrate.cli.commands import Format
    from torchmigrate.cli.commit import Commits
    from torchmigrate.commits import Target
    from torchmigrate.config import Settings
    from torchmigrate.engine import Plan
    from torchmigrate.journal import Journal
    from torchmigrate.selection import Selection


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for, beside the settings."""

    command: str  # check | apply | dry-run
    paths: tuple[Path, ...]
    output_format: Format
    output: Path | None
    jobs: int
    quiet: bool
    verbose: bool
    exit_zero: bool
    statistics: bool
    allow_dirty: bool = False
    since: str | None = None
    staged: bool = False
    baseline: Path | None = None
    write_baseline: bool = False
    stdin_filename: Path | None = None
    commit: bool = False
    branch: str | None = None
    interactive: bool = False
    also: Sequence[str] | None = None

    def say(self, *lines: str) -> None:
        """To stderr, unless `-q`."""
        if lines and not self.quiet:
            print(*map(visible_lines, lines), sep="\n", file=sys.stderr)


def run(command: str, *, paths: Sequence[Path] | None, jobs: int | None, **given: Any) -> int:
    """One `check`, `apply` or `apply --dry-run`; its exit status."""
    own = {field.name: given.pop(field.name) for field in fields(Request) if field.name in given}
    request = Request(command=command, paths=tuple(paths or [Path()]), jobs=jobs or cores(), **own)
    options.check(request)
    if options.reads_stdin(request):
        from torchmigrate.cli import stdin

        return stdin.run(request, given)
    only = options.selection(request)
    settings = settings_for(request.paths, **given)
    commits = None
    target = _target(request)
    if request.interactive:
        from torchmigrate.cli import interactive

        interactive.refuse(command == "dry-run")
    plan = planned(request, settings, only)
    if request.interactive:
        here = Path(os.path.realpath(os.curdir))
        dirty.guard([result for result in plan.results if isinstance(result, Changed)], request, target)
        plan = interactive.ask(plan, settings, Report(plan.results, plan.files_seen, command, here).name)
    if target:
        from torchmigrate.cli import commit

        commits = commit.prepare(plan, target, settings, command == "dry-run")
    results = _write(plan.results, request, commits) if command == "apply" else plan.results
    status = tell(replace(plan, results=list(results)), request, settings, only)
    if commits:
        request.say(*commits.told())
    before_commit.refuse_lost_helper(request, only)
    return status


def _target(request: Request) -> Target | None:
    if not request.commit and request.branch is None:
        return None
    from torchmigrate.cli import commit

    return commit.target(request.paths, request.branch, request.allow_dirty)


def planned(request: Request, settings: Settings, only: Selection) -> Plan:
    """What the command found and would write."""
    from torchmigrate import engine

    plan: Callable[..., Plan] = engine.plan
    is_sarif = any(each.output_format.value == "sarif" for each in output.reports(request))
    if not is_sarif and any(path.is_dir() for path in request.paths):
        from torchmigrate import remembered

        plan = remembered.plan  # without facts, of which SARIF's fixes are made
    mode = "check" if request.command == "check" else "apply"
    with pack_errors(), Progress(shown=not request.quiet) as progress:
        return plan(request.paths, settings, request.jobs, mode, progress, only)


def _write(results: Sequence[FileResult], request: Request, commits: Commits | None = None) -> list[FileResult]:
    """Everything planned, or an error of its own for each file that could not be written."""
    changes = [result for result in results if isinstance(result, Changed)]
    if not changes:
        return list(results)
    from torchmigrate import journal, lock

    with lock.held(journal.places([change.path for change in changes])):
        return _written(results, changes, request, commits)


def _written(
    results: Sequence[FileResult], changes: Sequence[Changed], request: Request, commits: Commits | None
) -> list[FileResult]:
    from torchmigrate import journal, vcs, write

    dirty.guard(changes, request)
    saved = journal.begin(changes)
    if not saved.in_git:
        silent = vcs.unanswered([change.path for change in changes])
        why = f"git tells nothing of {silent}: it is not installed, or the folder is another user's" if silent else ""
        request.say(f"note: {why or 'not in git'}; `torchmigrate undo` puts everything back")
    outcomes: list[Changed | Failed] = []
    try:
        for outcome in write.each(changes):
            outcomes.append(outcome)  # noqa: PERF402 (what is done counts when Ctrl-C comes)
    except KeyboardInterrupt:
        written = sum(isinstance(outcome, Changed) for outcome in outcomes)
        what = f"{written} of {len(changes)} files were written, each of them whole"
        raise Interrupted(what, "`torchmigrate undo` puts them back") from None
    saved.finish([outcome for outcome in outcomes if isinstance(outcome, Changed)])
    if commits:
        _publish(commits, saved, outcomes)
    by_path = {outcome.path: outcome for outcome in outcomes}
    return [by_path.get(result.path, result) for result in results]


def _publish(commits: Commits, saved: Journal, outcomes: Sequence[Changed | Failed]) -> None:
    lost = next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)
    if lost:
        what = f"nothing was committed: {lost.path.name} was {lost.error}"
        raise UserError(what, "`torchmigrate undo` puts back the files that were written")
    commits.publish(saved)


def _standing(report: Report, request: Request, settings: Settings, only: Selection) -> tuple[Report, Plan]:
    """What a `check` says of the files as they stand now, for formats that name places in them and offer fixes."""
    plan = planned(replace(request, command="check"), settings, only)
    failed = {result.path: result for result in report.results if isinstance(result, Failed)}
    results = [result for result in plan.results if result.path not in failed]
    return replace(report, results=[*results, *failed.values()], command="check"), plan


def tell(plan: Plan, request: Request, settings: Settings, only: Selection, stream: TextIO | None = None) -> int:
    """The report, to stdout unless another stream is given; the exit status."""
    results: Sequence[FileResult] = plan.results
    if request.baseline:
        from torchmigrate.cli import adopt

        results = adopt.settle(results, request, settings, only)
    here = Path(os.path.realpath(os.curdir))
    report = Report(results, plan.files_seen, request.command, here, settings.backends, plan.others)
    if plan.notes:
        request.say(*(f"note: {note}" for note in plan.notes))
    standing = None
    for each in output.reports(request):
        shown, facts = report, plan.facts
        if request.command != "check" and each.output_format.value in output.STANDING:
            standing = standing or _standing(report, request, settings, only)
            shown, facts = standing[0], standing[1].facts
        output.emit(output.body(shown, each, settings, facts), each.output, stream)
    if request.verbose:
        request.say(*output.details(report))
    if request.since is None and not request.staged:
        request.say(*output.unread(report, request.verbose))
    for failed in report.failed:
        print(f"error: {visible(report.name(failed.path))}: {visible(failed.error)}", file=sys.stderr)
    request.say(report.summary())
    return report.exit_code(request.exit_zero)


def put_back(path: Path) -> int:
    """`undo`; its exit status."""
    from torchmigrate import undo

    outcomes = undo.undo(path)
    here = Path(os.path.realpath(os.curdir))
    for outcome in outcomes:
        name = visible(str(outcome.path.relative_to(here) if outcome.path.is_relative_to(here) else outcome.path))
        if outcome.refused:
            print(f"error: {name}: {outcome.refused}; left as it is", file=sys.stderr)
        else:
            print(f"{outcome.done}: {name}")
    refused = sum(bool(outcome.refused) for outcome in outcomes)
    left = f", {refused} left as {'it is' if refused == 1 else 'they are'}" if refused else ""
    sys.stdout.flush()
    print(f"Put back {len(outcomes) - refused} of {len(outcomes)} files{left}.", file=sys.stderr)
    return 2 if refused else 0
