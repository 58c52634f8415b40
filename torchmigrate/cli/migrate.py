"""`apply`, `check` and `undo`: plan, guard, save, write, report."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmigrate import config as config_
from torchmigrate.edits import Changed, Failed, FileResult
from torchmigrate.errors import Interrupted, UserError
from torchmigrate.progress import Progress
from torchmigrate.report import Report

if TYPE_CHECKING:
    from torchmigrate.cli.commands import Format, Runtime, Style
    from torchmigrate.config import Settings
    from torchmigrate.engine import Plan
    from torchmigrate.rule import Ruleset

_LISTED = 20  # files that the dirty guard names


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

    def say(self, *lines: str) -> None:
        """To stderr, unless `-q`."""
        if not self.quiet:
            print(*lines, sep="\n", file=sys.stderr)


def run(command: str, *, paths: Sequence[Path] | None, jobs: int | None, **given: Any) -> int:
    """One `check`, `apply` or `apply --dry-run`; its exit status."""
    own = {field.name: given.pop(field.name) for field in fields(Request) if field.name in given}
    request = Request(command=command, paths=tuple(paths or [Path()]), jobs=jobs or cores(), **own)
    settings = settings_for(request.paths, **given)
    with pack_errors():
        plan = _plan(request, settings)
    results = _write(plan.results, request) if command == "apply" else plan.results
    here = Path(os.path.realpath(os.curdir))
    report = Report(results, plan.files_seen, command, here, settings.backends, plan.others)
    return _report(report, plan, request, settings)


def settings_for(
    paths: Sequence[Path],
    *,
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
    exclude: Sequence[str] | None,
    torch: str | None,
    backends: Sequence[str] | None,
    config: Path | None,
    isolated: bool,
    no_cache: bool = False,
    unsafe_fixes: bool | None = None,
    runtime: Runtime | None = None,
    style: Style | None = None,
) -> Settings:
    """The file's settings with the command line's on top. Raises UserError where they name no rule that there is."""
    settings = config_.load(
        paths,
        config,
        isolated,
        select=_names(select),
        ignore=_names(ignore),
        torch=torch,
        backends=_names(backends),
        unsafe_fixes=unsafe_fixes,
        runtime=runtime.value if runtime else None,
        style=style.value if style else None,
    )
    extra = tuple(_from_root(glob, settings.root) for glob in exclude or ())
    settings = replace(settings, extend_exclude=settings.extend_exclude + extra, no_cache=no_cache)
    with pack_errors():
        _check_names(settings)
    return settings


@contextmanager
def pack_errors() -> Iterator[None]:
    """A rule file's error is the user's to mend."""
    from torchmigrate.pack import PackError

    try:
        yield
    except PackError as error:
        message, _, help = str(error).partition("\nhelp: ")
        raise UserError(message, help) from None


def cores() -> int:
    """Processes to use where nobody says how many."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _names(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """`--select a,b --select c`."""
    if not values:
        return None
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def _from_root(glob: str, root: Path) -> str:
    """A pattern with a slash is typed relative to the current directory and matched from the root."""
    if "/" not in glob.rstrip("/"):
        return glob
    inside = os.path.relpath(os.path.join(os.path.realpath(os.curdir), glob), root).replace(os.sep, "/")
    return glob if inside.startswith("..") else "/" + inside


def _check_names(settings: Settings) -> None:
    """Names that no pack or rule has. Loads the rules only where names are given."""
    named = [*settings.select, *settings.ignore, *(n for names in settings.per_file_ignores.values() for n in names)]
    if not named:
        return
    from torchmigrate import pack

    known(pack.load(settings.rule_paths, cases=False), named)


def known(ruleset: Ruleset, names: Sequence[str]) -> None:
    """Raises UserError for a name that no pack or rule has."""
    for name, near in ruleset.unknown(names).items():
        raise UserError(
            f"unknown rule or pack `{name}`", f"did you mean `{near}`?" if near else "see `torchmigrate rules`"
        )


def _plan(request: Request, settings: Settings) -> Plan:
    from torchmigrate import engine

    mode = "check" if request.command == "check" else "apply"
    with Progress(shown=not request.quiet) as progress:
        return engine.plan(request.paths, settings, request.jobs, mode, progress)


def _write(results: Sequence[FileResult], request: Request) -> list[FileResult]:
    """Everything planned, or an error of its own for each file that could not be written."""
    changes = [result for result in results if isinstance(result, Changed)]
    if not changes:
        return list(results)
    from torchmigrate import journal, vcs, write

    if not request.allow_dirty:
        _refuse_dirty(vcs.dirty([change.path for change in changes if not change.new]))
    saved = journal.begin(changes)
    if not saved.in_git:
        request.say("note: not in git; `torchmigrate undo` puts everything back")
    outcomes: list[Changed | Failed] = []
    try:
        for outcome in write.each(changes):
            outcomes.append(outcome)  # noqa: PERF402 (what is done counts when Ctrl-C comes)
    except KeyboardInterrupt:
        written = sum(isinstance(outcome, Changed) for outcome in outcomes)
        what = f"{written} of {len(changes)} files were written, each of them whole"
        raise Interrupted(what, "`torchmigrate undo` puts them back") from None
    saved.finish([outcome for outcome in outcomes if isinstance(outcome, Changed)])
    by_path = {outcome.path: outcome for outcome in outcomes}
    return [by_path.get(result.path, result) for result in results]


def _refuse_dirty(dirty: Sequence[Any]) -> None:
    if not dirty:
        return
    here = Path(os.path.realpath(os.curdir))
    names = [os.path.relpath(d.path, here) if d.path.is_relative_to(here) else str(d.path) for d in dirty[:_LISTED]]
    width = max(map(len, names)) + 3
    rows = [f"\n  {name:<{width}}({d.why})" for name, d in zip(names, dirty, strict=False)]
    more = [f"\n  and {len(dirty) - _LISTED} more"] if len(dirty) > _LISTED else []
    one = len(dirty) == 1
    what = f"{len(dirty)} file{' has' if one else 's have'} changes git could not restore; torchmigrate would overwrite"
    raise UserError(
        f"{what} {'it' if one else 'them'}{''.join([*rows, *more])}", "commit or stash them, or pass --allow-dirty"
    )


def _standing(report: Report, request: Request, settings: Settings) -> tuple[Report, Plan]:
    """What a `check` says of the files as they stand now, for formats that name places in them and offer fixes."""
    with pack_errors():
        plan = _plan(replace(request, command="check"), settings)
    failed = {result.path: result for result in report.failed}
    results = [result for result in plan.results if result.path not in failed]
    return replace(report, results=[*results, *failed.values()], command="check"), plan


def _report(report: Report, plan: Plan, request: Request, settings: Settings) -> int:
    from torchmigrate.cli import output

    if plan.notes:
        request.say(*(f"note: {note}" for note in plan.notes))
    shown = report
    if request.command != "check" and request.output_format.value in output.STANDING:
        shown, plan = _standing(report, request, settings)
    output.emit(output.body(shown, request, settings, plan.facts), request.output)
    if request.verbose:
        request.say(*output.details(report))
    for failed in report.failed:
        print(f"error: {report.name(failed.path)}: {failed.error}", file=sys.stderr)
    request.say(report.summary())
    return report.exit_code(request.exit_zero)


def put_back(path: Path) -> int:
    """`undo`; its exit status."""
    from torchmigrate import undo

    outcomes = undo.undo(path)
    here = Path(os.path.realpath(os.curdir))
    for outcome in outcomes:
        name = outcome.path.relative_to(here) if outcome.path.is_relative_to(here) else outcome.path
        if outcome.refused:
            print(f"error: {name}: {outcome.refused}; left as it is", file=sys.stderr)
        else:
            print(f"{outcome.done}: {name}")
    refused = sum(bool(outcome.refused) for outcome in outcomes)
    left = f", {refused} left as {'it is' if refused == 1 else 'they are'}" if refused else ""
    sys.stdout.flush()
    print(f"Put back {len(outcomes) - refused} of {len(outcomes)} files{left}.", file=sys.stderr)
    return 2 if refused else 0
