"""A finding is one place that a rule reports, with the fix that it offers; a result is what happened to one file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base import file_io
from torchmigrate.source import encoding

if TYPE_CHECKING:
    from torchmigrate.source.edits import Edit

SUPPRESSES = b"torchmigrate:"  # is in each comment that suppresses findings


class Safety(str, Enum):
    """The safety says how sure a fix is; a safe one changes nothing observable on CUDA, a display finding has none."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"

    @property
    def said(self) -> str:
        """It is the word of pages and terminals; rule files and JSON keep the value."""
        return "needs you" if self is Safety.DISPLAY else self.value


class Status(str, Enum):
    """The state of a finding after the run.

    HELD: its fix is unsafe, and unsafe fixes were not asked for. DROPPED: its fix overlapped another one. LEFT: the
    code is right as it is; it is shown with -v and in JSON, and does not count for exit statuses. KNOWN: it is in the
    baseline.
    """

    OPEN = "open"
    APPLIED = "applied"
    HELD = "held"
    DROPPED = "dropped"
    SUPPRESSED = "suppressed"
    LEFT = "left"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that are applied together or not at all, and the names they need (`accel`, `accel.Event`, `torch`)."""

    edits: tuple[Edit, ...]
    safety: Safety
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that a rule reports.

    `start` and `end` are byte offsets in the UTF-8 text; lines and columns are 1-based, columns in characters. Lines of
    a notebook count from the beginning of `cell`.
    """

    rule: str
    safety: Safety
    start: int
    end: int
    message: str
    backends: tuple[str, ...] = ()
    fix: Fix | None = field(default=None, hash=False)  # each in an f-string holds all its edits
    status: Status = Status.OPEN
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    cell: int | None = None
    see: str = ""
    blocks: bool = False  # NVIDIA-only code: the guarded region around it stays as it is
    guards: str = ""  # the rule says so: a "test" or a "choice" of a device, which guards code
    held: str = ""  # where and why its edits are held back: the last line of a report says so
    raises: bool = False  # it raises on one of its backends: a choice of the device that leads there stays
    follows: bool = False  # a test of the device type: rewritten only together with code that it guards

    @property
    def is_to_do(self) -> bool:
        """Return whether nothing mends it in this run: it has no fix, or one that is unsafe and not asked for."""
        return self.status is Status.HELD or (self.fix is None and self.status is Status.OPEN)

    def with_status(self, status: Status) -> Finding:
        """Return a copy with another status."""
        return replace(self, status=status)


def choose(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Split fixable findings, in order of preference, into those whose edits fit together and those that collide."""
    from torchmigrate.source.edits import Occupied  # clean files have no findings

    taken = Occupied()
    chosen: list[Finding] = []
    dropped: list[Finding] = []
    for finding in findings:
        assert finding.fix is not None
        (chosen if taken.add(finding.fix.edits) else dropped).append(finding)
    return chosen, dropped


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A file that is not rewritten; its `findings` may still need a person."""

    path: Path
    findings: tuple[Finding, ...] = ()
    text: bytes | None = None  # the text that was analysed, if it differs from the file on disk
    unread: str = ""  # what is wrong with cells that were not read


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that is rewritten: `applied` were fixed (positions in `before`), `findings` remain (in `after`)."""

    path: Path
    before: bytes
    after: bytes
    applied: tuple[Finding, ...]
    findings: tuple[Finding, ...] = ()
    new: bool = False  # the file did not exist: the vendored helper
    unread: str = ""  # what is wrong with cells that were not read


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not analysed because the user asked for that (excluded, `skip-file`)."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A file that could not be read, parsed or rewritten; the exit status is 2."""

    path: Path
    error: str


FileResult = Unchanged | Changed | Skipped | Failed


def failures(results: Iterable[FileResult]) -> Iterator[Failed]:
    """Yield files that could not be read, and those of which a part (cells) could not."""
    for result in results:
        if isinstance(result, Failed):
            yield result
        elif isinstance(result, (Changed, Unchanged)) and result.unread:
            yield Failed(result.path, result.unread)


_LINE = r"(?<!, )\bline (\d+)"  # of the same file: others are `train.py, line 3` and `cell 2, line 3`


def shifted(findings: Iterable[Finding], edit: Edit, line: int) -> Iterator[Finding]:
    """Move findings to where they stand after `edit` inserted whole lines, or text, on the 1-based `line`.

    So are lines of the same file that their messages name, unless `line` is 0: it is not known.
    """
    lines, size = edit.text.count("\n") or edit.text.count("\r"), len(edit.text.encode())
    last_above = line if edit.text[:1] in ("\n", "\r") else line - 1

    def renumbered(found: re.Match[str]) -> str:
        number = int(found[1])
        return f"line {number + lines * (number > last_above)}"

    def behind(each: Edit) -> Edit:
        return each if each.start < edit.start else replace(each, start=each.start + size, end=each.end + size)

    for f in findings:
        if line and lines and "line " in f.message:
            parts = f.message.split("`")  # every second one is code
            parts[::2] = (re.sub(_LINE, renumbered, part) for part in parts[::2])
            f = replace(f, message="`".join(parts))
        if f.fix:
            f = replace(f, fix=replace(f.fix, edits=tuple(map(behind, f.fix.edits))))
        if f.start < edit.start:
            yield f
            continue
        moved = replace(f, start=f.start + size, end=f.end + size, line=f.line + lines, end_line=f.end_line + lines)
        if not lines:
            first, last = (len(edit.text) * (at == line) for at in (f.line, f.end_line))
            moved = replace(moved, column=f.column + first, end_column=f.end_column + last)
        yield moved


@dataclass(frozen=True)
class SourceLines:
    """Gives the source lines of findings, from a rewritten file's `before` if that is set, else from `after`."""

    result: FileResult
    before: bool

    @cached_property
    def _bytes(self) -> bytes:
        if isinstance(self.result, Changed):
            return self.result.before if self.before else self.result.after
        if isinstance(self.result, Unchanged) and self.result.text is not None:
            return self.result.text
        try:
            return file_io.read(self.result.path)
        except OSError:
            return b""

    @cached_property
    def _file_lines(self) -> list[str]:
        try:
            return split_lines(encoding.decode(self._bytes).text)
        except encoding.UnreadableSource:
            return []

    @cached_property
    def _cell_lines(self) -> list[list[str]]:
        try:
            import json  # for notebooks alone

            return [split_lines("".join(cell["source"])) for cell in json.loads(self._bytes)["cells"]]
        except (ValueError, KeyError, TypeError):
            return []

    def line(self, finding: Finding) -> str | None:
        """Return the first line of a finding, or None if it cannot be read."""
        return next((line for number, line in self.around(finding, 0) if number == finding.line), None)

    def around(self, finding: Finding, more: int) -> list[tuple[int, str]]:
        """Return the numbered first line of a finding and up to `more` lines on each side, all in the same cell."""
        if finding.cell is None:
            found = self._file_lines
        else:
            found = self._cell_lines[finding.cell - 1] if finding.cell <= len(self._cell_lines) else []
        near = range(max(1, finding.line - more), min(len(found), finding.line + more) + 1)
        return [(number, found[number - 1].rstrip()) for number in near]

    def lines_of(self, finding: Finding) -> list[str]:
        """Return all lines of a finding."""
        more = max(finding.line, finding.end_line) - finding.line
        return [line for number, line in self.around(finding, more) if number >= finding.line]


def split_lines(text: str) -> list[str]:
    """Split a text at \\n, \\r\\n and \\r, as Python counts lines; form feeds end none."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
