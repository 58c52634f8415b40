"""Print the output of a run: the progress bar on stderr, colours, the report on stdout or in a file, notes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from torchmigrate.base import system
from torchmigrate.base.text import UserError, columns, counted, visible, visible_lines
from torchmigrate.formats.model import Report, place

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from torchmigrate.cli.selection import Request
    from torchmigrate.config.settings import Settings
    from torchmigrate.project.context import ProjectContext


DELAY = 1.0


class Progress:
    """Show a progress bar on stderr, on a terminal and after DELAY seconds: call it with (done, total)."""

    def __init__(self, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if not self._shown:
            return
        if self._bar is None:
            if time.monotonic() - self._began < DELAY:
                return
            self._start(total)
        assert self._bar is not None and self._task is not None
        self._bar.update(self._task, completed=done, total=total)

    def _start(self, total: int) -> None:
        from rich.console import Console  # takes 45 ms, so for long work only
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("files"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("files", total=total)
        self._bar.start()


_NAMED = 5
# formats that describe the files as they stand now, as `check` sees them
STANDING = ("sarif", "github", "gitlab", "junit")


def colours(stream: object, asked: str = "auto") -> bool:
    """Return whether to use colours: as `--color` asks, else NO_COLOR, else FORCE_COLOR, else where a terminal can."""
    if asked != "auto":
        return asked == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if forced := os.environ.get("FORCE_COLOR"):
        return forced != "0"
    return bool(getattr(stream, "isatty", bool)()) and os.environ.get("TERM") != "dumb"


def body(report: Report, request: Request, settings: Settings, facts: ProjectContext | None = None) -> Iterator[bytes]:
    """Yield a report's bytes: a dry run's diff and the findings, or a document for another program."""
    if request.output_format.value == "diff":
        yield from _diff(report, request, settings.root, colour=False, terminal=False)
        return
    if request.output_format.value not in ("text", "concise"):
        yield from (line.encode(errors="replace") + b"\n" for line in _document(report, request, settings, facts))
        return
    colour = colours(sys.stdout, request.color) and (request.output is None or request.color == "always")
    if report.command == "dry-run":
        terminal = request.output is None and columns(sys.stdout) is not None
        yield from _diff(report, request, settings.root, colour, terminal)
    yield from (line.encode(errors="surrogateescape") + b"\n" for line in _findings(report, request, colour))


def _document(report: Report, request: Request, settings: Settings, facts: ProjectContext | None) -> Iterable[str]:
    from torchmigrate.formats.model import base_of
    from torchmigrate.rules import packs

    name = request.output_format.value
    if name == "json":
        from torchmigrate.formats import json

        return [json.render(report)]
    base = base_of(report)
    if name in ("github", "gitlab", "junit"):
        from torchmigrate.formats import ci

        if name == "github":
            return ci.render_github(report, base)
        return [ci.render_gitlab(report, base) if name == "gitlab" else ci.render_junit(report, base)]
    rules = packs.load(settings.rule_paths, cases=False).rules
    if name == "sarif":
        from torchmigrate.formats import sarif

        return [sarif.render(report, base, rules, facts)]
    from torchmigrate.formats import markdown

    return [markdown.render(report, base, rules)]


def _findings(report: Report, request: Request, colour: bool) -> Iterable[str]:
    if not request.statistics and request.output_format.value == "concise":
        from torchmigrate.formats import text

        return text.concise_lines(report)
    if not report.findings and not request.statistics:
        return ()
    from torchmigrate.formats import text

    return (
        text.statistics(report, colour)
        if request.statistics
        else text.lines(report, colour, None if request.output else columns(sys.stdout), every=request.verbose)
    )


def _diff(report: Report, request: Request, root: Path, colour: bool, terminal: bool) -> Iterator[bytes]:
    """Yield the diff of all files; on a terminal, notebooks for reading only, and a new helper as one line."""
    from torchmigrate.formats import diff

    base = report.here
    if not all(change.path.is_relative_to(base) for change in report.changed):
        base = root
        request.say(f"note: paths in the diff are relative to {root}")
    for change in report.changed:
        name = system.relative(change.path, base)
        text = diff.readable(change, name)
        if diff.is_notebook(name) and not terminal:
            text += diff.unified(change, name)
        if terminal and change.new and not change.applied and not request.verbose:
            text = f"+ {name}, {counted(len(change.after.splitlines()), 'line')}\n".encode(errors="surrogateescape")
        if terminal:
            text = visible_lines(text.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        yield coloured(text) if colour else text


def coloured(text: bytes) -> bytes:
    codes = {b"@": b"36", b"-": b"31", b"+": b"32", b"#": b"2"}
    lines = text.split(b"\n")
    heads = (b"--- ", b"+++ ")
    paint = (b"1" if line.startswith(heads) else codes.get(line[:1]) for line in lines)
    return b"\n".join(b"\x1b[%sm%s\x1b[0m" % (c, line) if c else line for c, line in zip(paint, lines, strict=True))


def details(report: Report) -> Iterator[str]:
    """Yield the lines that `-v` adds on stderr."""
    verb = "rewrote" if report.written else "would rewrite"
    for change in report.changed if report.command != "check" else ():
        rules = ", ".join(dict.fromkeys(finding.rule for finding in change.applied))
        name = visible(report.name(change.path))
        yield f"{verb if not change.new else 'helper:'} {name}{f' ({rules})' if rules else ''}"
    for result, finding in report.left:
        yield f"left {visible(place(report.name(result.path), finding))}: {finding.rule}: {visible(finding.message)}"
    for skipped in report.skipped:
        yield f"skipped {visible(report.name(skipped.path))}: {visible(skipped.reason)}"


def unread(report: Report, verbose: bool) -> Iterator[str]:
    """Yield why nothing was read, if no error says so."""
    if report.read or report.others or report.failed:
        return
    if not report.skipped:
        yield "note: no Python file or notebook found; name the files or directories to read"
    for skipped in () if verbose else report.skipped[:_NAMED]:
        yield f"skipped {report.name(skipped.path)}: {skipped.reason}"


def refuse_link_out(file: Path) -> None:
    """Raise UserError if a link in the project would lead an output file out of it: the project may have planted it."""
    from torchmigrate.vcs import git_tree

    here = Path(os.path.realpath(os.curdir))
    top = git_tree.marker(here) or here
    for folder in Path(os.path.abspath(file)).parents:
        leads_to = Path(os.path.realpath(folder))
        inside = Path(os.path.realpath(folder.parent)).is_relative_to(top)
        if folder.is_symlink() and inside and not leads_to.is_relative_to(top):
            what = f"cannot write {file}: {folder} is a link out of the project"
            raise UserError(what, f"if that is meant, name the folder itself: {leads_to}")


def emit(parts: Iterable[bytes], file: Path | None, stream: TextIO | None = None) -> None:
    """Write bytes (a diff has its files' encodings) to a stream, or to a file in one step; raises UserError."""
    if file is not None:
        from torchmigrate.base import file_io

        refuse_link_out(file)
        try:
            file_io.alone(file, b"".join(parts))
        except OSError as error:
            what = f"cannot write {file}: {(error.strerror or str(error)).lower()}"
            raise UserError(what, "name a file in a directory that is there and can be written") from None
        return
    stream = stream or sys.stdout
    stream.flush()
    for part in parts:
        stream.buffer.write(part)
    stream.flush()
