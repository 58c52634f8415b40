"""Define the command `fleet`: turn options into tasks, and outcomes into files and a report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from torchmigrate.base.text import Interrupted, UserError
from torchmigrate.cli import parameters as options

if TYPE_CHECKING:
    from torchmigrate.fleet.processes import Executor
    from torchmigrate.fleet.report import Fleet
    from torchmigrate.fleet.task import Outcome, Store, Summary, Task


Say = Callable[[str], None]
_SETTINGS = ("select", "ignore", "torch", "backends", "unsafe_fixes", "runtime", "style")


class FleetFormat(str, Enum):
    """These are the formats of the fleet report."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


class Push(str, Enum):
    """Each choice of `--push` says what is pushed."""

    DRY_RUN = "dry-run"
    NOW = "now"


def fleet(
    repos: Annotated[Path, Argument(metavar="REPOS.txt", help="Paths and git URLs, one on each line.")],
    output: Annotated[Path, Option("-o", "--output", metavar="DIR", help="Patches, findings and reports go here.")],
    check: Annotated[bool, Option("--check", help="Report only, make no patches.")] = False,
    executor: Annotated[str, Option(metavar="WHERE", help="local, or dask://HOST:PORT for its workers.")] = "local",
    jobs: options.Jobs = None,
    force: Annotated[bool, Option("--force", help="Do again what an earlier run has done.")] = False,
    timeout: Annotated[float, Option(min=0.1, metavar="S", help="Seconds that one repository may take.")] = 1800,
    verify: Annotated[
        str | None, Option(metavar="CMD", help="Run CMD in each, before and after. Runs their code.")
    ] = None,
    commit: Annotated[bool, Option("--commit", help="One commit for each pack, not one in all.")] = False,
    branch: Annotated[str, Option(metavar="NAME", help="The branch in each bundle.")] = "torchmigrate",
    push: Annotated[
        Push | None, Option(metavar="WHEN", help="dry-run: ask whether URLs take the branch; now: push.")
    ] = None,
    score: Annotated[bool, Option("--score/--no-score", help="Count what is portable (off: --no-score).")] = True,
    unsafe_fixes: options.UnsafeFixes = None,
    select: options.Names = None,
    ignore: options.Ignore = None,
    exclude: Annotated[list[str] | None, Option(metavar="GLOB", help="Leave these files out. Repeatable.")] = None,
    torch: options.Torch = None,
    backends: options.Backends = None,
    runtime: options.RuntimeOption = None,
    style: options.StyleOption = None,
    isolated: options.Isolated = False,
    output_format: Annotated[FleetFormat, Option(metavar="F", help="text|markdown|json|html")] = FleetFormat.TEXT,
    quiet: Annotated[bool, Option("-q", "--quiet", help="The report and errors only.")] = False,
) -> int:
    """Migrate many repositories into patches and one report.

    Writes to DIR alone, and goes on where it was stopped.

    \b
    Examples:
      torchmigrate fleet repos.txt -o out           a patch for each
      torchmigrate fleet repos.txt -o out --check   what is in the way
    """
    if push and check:
        raise UserError("--push has nothing to push: --check makes no patches", "leave one of them out")
    tasks, notes = _tasks(repos, locals())
    from torchmigrate.config.config_file import cores
    from torchmigrate.fleet import processes
    from torchmigrate.fleet.task import Store

    say: Say = (lambda line: None) if quiet else _say
    for note in notes:
        say(f"note: {note}")
    store = Store(output)
    with store.opened() as scratch:
        run = processes.chosen(executor, jobs, cores, scratch)
        found = _run(run, tasks if force else _with_known(tasks, store), store, say)
        _report(found, store, output_format)
        refused = _push(tasks, found, store, scratch, push, say) if push else 0
    say(found.sentence())
    return 2 if refused else found.status


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _tasks(repos: Path, given: dict[str, Any]) -> tuple[list[Task], list[str]]:
    """Return the tasks and notes on the list, all checked before anything is fetched; raises UserError."""
    import shlex

    from torchmigrate.fleet import repositories
    from torchmigrate.fleet.task import Task

    sources, notes = repositories.read(repos, _text(repos))
    flags = _flags(given)
    try:
        words = tuple(shlex.split(given["verify"] or ""))
    except ValueError as error:
        raise UserError(f"--verify: {str(error).lower()}", "quote it as for a shell") from None
    if given["verify"] is not None and not words:
        raise UserError("--verify names no command", '--verify "python train.py --epochs 1"')
    shared: dict[str, Any] = {
        "mode": "check" if given["check"] else "apply",
        "flags": flags,
        "isolated": given["isolated"],
        "per_pack": given["commit"],
        "branch": _branch(given["branch"]),
        "author": _author(),
        "verify": words,
        "score": given["score"],
        "timeout": given["timeout"],
    }
    return [Task(s.name, s.location, s.rev, s.is_url, s.shown, **shared) for s in sources], notes


def _text(repos: Path) -> str:
    from torchmigrate.base import file_io

    try:
        return file_io.named(repos).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UserError(f"{repos}: not UTF-8", "a text file with one path or git URL on each line") from None
    except OSError as error:
        raise UserError(f"{repos}: {(error.strerror or str(error)).lower()}") from None


def _flags(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for all repositories, checked as in other commands; raises UserError."""
    from torchmigrate.config import config_file
    from torchmigrate.config.settings import Settings

    flags = config_file.flags(**{name: given[name] for name in _SETTINGS})
    config_file.check_names(config_file.override(Settings(), **flags), None, given)
    flags["extend_exclude"] = [config_file.excluding(glob) for glob in given["exclude"] or ()] or None
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in flags.items()}
    return {name: value for name, value in found.items() if value is not None}


def _branch(name: str) -> str:
    import re

    if not re.fullmatch(r"\w[\w./-]*", name, re.ASCII) or re.search(r"\.\.|//|/\.|\.lock(/|$)|[./]$", name):
        raise UserError(f"--branch: `{name}` cannot be the name of a branch", "letters, digits, `-`, `_`, `.` and `/`")
    return name


def _author() -> tuple[str, str]:
    """Return the user's name and address as git knows them, so that commits are the same on every worker."""
    from torchmigrate.vcs.hardening import Git, GitError, NoGit

    shell, found = Git(Path.cwd()), []
    for key in ("user.name", "user.email"):
        try:
            found.append(shell("config", "--get", key).decode(errors="replace").strip())
        except NoGit:
            raise UserError("fleet needs git, which is not on PATH", "install git") from None
        except GitError:  # not set
            found.append("")
    name, address = (part.translate({ord(c): None for c in "<>\n\0"}).strip() for part in found)
    return (name, address) if name and address else ("torchmigrate", "torchmigrate@localhost")


def _with_known(tasks: Sequence[Task], store: Store) -> list[Task]:
    """Return the tasks with the digests of results that an earlier run left."""
    from dataclasses import replace

    return [replace(task, known=store.done(task.name)) for task in tasks]


def _run(run: Executor, tasks: Sequence[Task], store: Store, say: Say) -> Fleet:
    """Run the tasks; each result is written to disk before the next one is awaited."""
    from torchmigrate.fleet.report import Fleet

    began, resumed = time.monotonic(), 0
    summaries: dict[str, Summary] = {}
    outcomes = run(tasks)
    try:
        for outcome in outcomes:
            resumed += outcome.summary is None
            summaries[outcome.name] = _keep(outcome, store)
            what_happened = "done already" if outcome.summary is None else _describe(summaries[outcome.name])
            say(f"{len(summaries)}/{len(tasks)} {outcome.name}: {what_happened}")
    except KeyboardInterrupt:
        what = f"{len(summaries)} of {len(tasks)} repositories are done, and whole in {store.top}"
        raise Interrupted(what, "the same command goes on with the others") from None
    finally:
        outcomes.close()  # type: ignore[attr-defined]
    return Fleet([summaries[task.name] for task in tasks], tasks[0].mode, resumed, time.monotonic() - began)


def _keep(outcome: Outcome, store: Store) -> Summary:
    if outcome.summary is not None:
        return store.keep(outcome)
    summary = store.summary(outcome.name)
    if summary is None:
        raise UserError(f"{store.top / outcome.name} has changed while the run went on", "run the same command again")
    return summary


def _describe(summary: Summary) -> str:
    from torchmigrate.base.text import counted
    from torchmigrate.fleet.task import FAILED
    from torchmigrate.surveys.portability import clean

    if summary["status"] == FAILED:
        return clean(f"{FAILED}: {summary['reason']}")
    left = counted(summary["findings"], "finding")
    parts = [summary["status"], counted(summary["edits"], "edit"), f"{left} left"]
    if summary["command"] == "check":
        parts = [summary["status"], left]
    more = [summary["reason"], f"verify: {summary['verify']}" if "verify" in summary else ""]
    return clean(", ".join([*parts, *filter(None, more)]))


def _push(tasks: Sequence[Task], found: Fleet, store: Store, scratch: Path, when: Push, say: Say) -> int:
    """Push the branches of all that was migrated from a URL, each after a dry run; return how many were refused."""
    from torchmigrate.fleet import repositories

    refused = 0
    for task, summary in zip(tasks, found.summaries, strict=True):
        bundle = store.top / task.name / "changes.bundle"
        if summary["status"] != "migrated" or "changes.bundle" not in summary.get("outputs", ()):
            continue
        if not task.is_url:
            say(f"{task.name}: not pushed, as your list has a path: git fetch {bundle} {task.branch}")
            continue
        try:
            repositories.push(task.location, summary["commit"], bundle, task.branch, scratch, now=when is Push.NOW)
        except UserError as error:
            refused += 1
            print(UserError(f"{task.name}: not pushed: {error.message}", error.help), file=sys.stderr)
            continue
        done = "pushed" if when is Push.NOW else "would push"
        say(f"{task.name}: {done} {task.branch} to {task.shown}; the request's text: {bundle.parent / 'body.md'}")
    return refused


def _report(found: Fleet, store: Store, output_format: FleetFormat) -> None:
    from torchmigrate.fleet import report

    made = {
        "report.json": report.as_json(found),
        "report.md": report.markdown(found),
        "report.html": report.html(found),
    }
    store.put({name: text.encode(errors="backslashreplace") for name, text in made.items()})
    printed = {"json": "report.json", "markdown": "report.md", "html": "report.html"}.get(output_format.value)
    print(made[printed] if printed else report.text(found), end="")
    sys.stdout.flush()
