"""Run `apply`, `check` and `undo`: plan, guard, save, write, report."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmigrate.base import file_io
from torchmigrate.base.text import Interrupted, UserError, counted, visible
from torchmigrate.cli import output, selection
from torchmigrate.cli.migration.render import planned, tell
from torchmigrate.cli.output import Progress
from torchmigrate.cli.selection import Request
from torchmigrate.config.config_file import cores, pack_errors, settings_for
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Unchanged
from torchmigrate.formats.model import Report

if TYPE_CHECKING:
    from torchmigrate.apply.commits import Target
    from torchmigrate.apply.journal import Journal
    from torchmigrate.cli.migration.commit import Commits
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.project.discovery import Selection


_UNNAMED = Path("stdin.py")  # the file in the current directory that the text stands for by default


def run(command: str, *, paths: Sequence[Path] | None, jobs: int | None, **given: Any) -> int:
    """Run one `check`, `apply` or `apply --dry-run`; return its exit status."""
    own = {field.name: given.pop(field.name) for field in fields(Request) if field.name in given}
    request = Request(command=command, paths=tuple(paths or [Path()]), jobs=jobs or cores(), **own)
    selection.check(request)
    if selection.reads_stdin(request):
        return _run_on_stdin(request, given)
    only = selection.selection(request)
    settings = settings_for(request.paths, **given)
    commits = None
    target = _target(request)
    if request.interactive:
        from torchmigrate.cli.migration import commit, interactive

        interactive.refuse(command == "dry-run")
    plan = planned(request, settings, only)
    if request.interactive:
        here = Path(os.path.realpath(os.curdir))
        commit.guard([result for result in plan.results if isinstance(result, Changed)], request, target)
        plan = interactive.ask(plan, settings, Report(plan.results, plan.files_seen, command, here).name)
    if target:
        from torchmigrate.cli.migration import commit

        commits = commit.prepare(plan, target, settings, command == "dry-run")
    results = write(plan.results, request, commits) if command == "apply" else plan.results
    if request.add_ignores:
        from torchmigrate.cli.migration import baseline

        here = Path(os.path.realpath(os.curdir))
        report = Report(plan.results, plan.files_seen, command, here, settings.backends, plan.others)
        results = baseline.add_ignores(report, request, write)
    status = tell(replace(plan, results=list(results)), request, settings, only)
    if commits:
        request.say(*commits.describe())
    refuse_lost_helper(request, only)
    return status


def _run_on_stdin(request: Request, given: dict[str, Any]) -> int:
    """Run `check`, `apply` or `apply --dry-run` on standard input, for `-`; return the exit status.

    `apply` prints the text, rewritten or unchanged.
    """
    from torchmigrate.engine import planner

    path = Path(os.path.realpath(request.stdin_filename or _UNNAMED))
    request = replace(request, paths=(path,))
    raw = sys.stdin.buffer.read()
    answer = raw
    try:
        settings = settings_for(request.paths, **given)
        only = planner.text_selection(path, raw)
        plan = _plan_text(request, settings, only)
        if request.command != "apply":
            return tell(plan, request, settings, only)
        answer = next((r.after for r in plan.results if isinstance(r, Changed)), raw)
        return tell(plan, request, settings, only, sys.stderr)
    finally:  # even after an error: an editor replaces its text by this output
        if request.command == "apply":
            output.emit([answer], None)


def _plan_text(request: Request, settings: Settings, only: Selection) -> Plan:
    """Plan the text in the context of its project; the helper is not written, and a note says so."""
    from torchmigrate.engine import planner

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


def _target(request: Request) -> Target | None:
    if not request.commit and request.branch is None:
        return None
    from torchmigrate.cli.migration import commit

    return commit.target(request.paths, request.branch, request.allow_dirty)


def write(results: Sequence[FileResult], request: Request, commits: Commits | None = None) -> list[FileResult]:
    """Write the planned changes; return the results, with a Failed for each file that could not be written."""
    changes = [result for result in results if isinstance(result, Changed)]
    if not changes and not any(path.is_dir() for path in request.paths):
        return list(results)  # a hook names files, most of which are clean
    from torchmigrate.apply import journal, writer
    from torchmigrate.base import user_folders

    writer.sweep(request.paths)
    if not changes:
        return list(results)

    with user_folders.held(journal.places([change.path for change in changes])):
        return _write_guarded(results, changes, request, commits)


def _write_guarded(
    results: Sequence[FileResult], changes: Sequence[Changed], request: Request, commits: Commits | None
) -> list[FileResult]:
    from torchmigrate.apply import journal, writer
    from torchmigrate.cli.migration import commit
    from torchmigrate.vcs import git_tree

    commit.guard(changes, request)
    saved = journal.begin(changes)
    if not saved.in_git:
        silent = git_tree.unanswered([change.path for change in changes])
        why = f"git tells nothing of {silent[0]} ({silent[1]})" if silent else "not in git"
        request.say(f"note: {why}; `torchmigrate undo` puts everything back")
    elif not saved.lasts:
        request.say(f"note: `torchmigrate undo` works until {saved.directory.parent} is emptied: no state folder here")
    outcomes: list[Changed | Failed] = []
    try:
        for outcome in writer.each(changes):
            outcomes.append(outcome)  # noqa: PERF402 (what is done counts when Ctrl-C comes)
    except KeyboardInterrupt:
        written = sum(isinstance(outcome, Changed) for outcome in outcomes)
        what = f"{written} of {len(changes)} files were written, each of them whole"
        raise Interrupted(what, "`torchmigrate undo` puts them back") from None
    saved = saved.finish([outcome for outcome in outcomes if isinstance(outcome, Changed)])
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


_WOULD = {"restored": "would restore", "removed": "would remove"}


def put_back(path: Path, dry_run: bool = False) -> int:
    """Run `undo`; return its exit status."""
    from torchmigrate.apply import writer

    outcomes = writer.undo(path, dry_run)
    here = Path(os.path.realpath(os.curdir))
    for outcome in outcomes:
        name = visible(str(outcome.path.relative_to(here) if outcome.path.is_relative_to(here) else outcome.path))
        if outcome.refused:
            print(f"error: {name}: {outcome.refused}; left as it is", file=sys.stderr)
        else:
            print(f"{_WOULD.get(outcome.done, outcome.done) if dry_run else outcome.done}: {name}")
    refused = sum(bool(outcome.refused) for outcome in outcomes)
    left = f", {refused} left as {'it is' if refused == 1 else 'they are'}" if refused else ""
    sys.stdout.flush()
    verb = "Would put back" if dry_run else "Put back"
    print(f"{verb} {len(outcomes) - refused} of {len(outcomes)} files{left}.", file=sys.stderr)
    return 2 if refused else 0


def list_applies(path: Path) -> int:
    """Run `undo --list`; return its exit status."""
    import time

    from torchmigrate.apply import journal, writer

    for number, (saved, here) in enumerate(journal.below(path), 1):
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(saved.made))
        committed = writer.is_committed(saved)
        more = f", committed as {committed[0]}..{committed[1]} on {visible(committed[2])}" if committed else ""
        print(f"{number}. {made}  {counted(len(here), 'file')} in {visible(str(saved.base))}{more}")
    sys.stdout.flush()
    return 0


# an import on one line, as we write it; it may follow `;` or `:`, or stand in the JSON text of a notebook
_IMPORTED = rb"(?:^|[\"';:])[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import\b[^\n#]*\b(%s)\b"


def refuse_lost_helper(request: Request, only: Selection) -> None:
    """Raise UserError if files of the next commit import a helper that git does not track (`--staged`, hooks)."""
    is_gate = os.environ.get("PRE_COMMIT") or (request.staged and request.command == "check")
    if request.command == "dry-run" or not is_gate:
        return
    names = only.paths if only.paths is not None else map(os.path.realpath, request.paths)
    users = {helper: path for path in map(Path, sorted(names, reverse=True)) for helper in _helpers(path)}
    if not users:
        return
    from torchmigrate.vcs import git_tree

    lost = [dirty.path for dirty in git_tree.dirty(sorted(users)) if dirty.why == "untracked"]
    if lost:
        import shlex

        helpers = [os.path.relpath(path) for path in lost]
        what = f"{os.path.relpath(users[lost[0]])} imports {helpers[0]}, which the commit would be without"
        raise UserError(what, f"git add {shlex.join(helpers)}")


def _helpers(path: Path) -> Sequence[Path]:
    """Return the helpers that a file imports; a file without such imports costs one search."""
    from torchmigrate.project.helper_file import NAMES, is_ours

    try:
        raw = file_io.read(path)
    except OSError:
        return []
    if not any(name.encode() in raw for name in NAMES):
        return []
    found = {name.decode() for name in re.findall(_IMPORTED % "|".join(NAMES).encode(), raw, re.M)}
    return [file for name in sorted(found) for file in _above(path, f"{name}.py") if is_ours(file)]


def _above(path: Path, name: str) -> Iterator[Path]:
    """Yield the file's candidate paths, from its directory up to the top of the work tree."""
    from torchmigrate.vcs import git_tree

    top = git_tree.marker(path.parent)
    for directory in path.parents if top else ():
        yield directory / name
        if directory == top:
            return
