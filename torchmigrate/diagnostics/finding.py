"""A finding: one place that a rule speaks about, with the fix that it offers; and the result of one file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.source.edits import Edit, Occupied


class Safety(str, Enum):
    """How sure a fix is (design: safe = nothing observable changes on CUDA)."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Status(str, Enum):
    """What became of a finding.

    HELD: unsafe and not asked for. DROPPED: it overlapped another. LEFT: right as it is (a portable ladder, a guard
    over what only NVIDIA has), told with -v and in json, no finding for exit statuses. KNOWN: in the baseline.
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
    """Edits that are applied together or not at all, and the bindings they need (`accel`, `accel.Event`, `torch`)."""

    edits: tuple[Edit, ...]
    safety: Safety
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that a rule speaks about. `line` is 1-based, `column` 1-based in characters; `cell` is a notebook's."""

    rule: str
    safety: Safety
    start: int
    end: int
    message: str
    backends: tuple[str, ...] = ()
    fix: Fix | None = None
    status: Status = Status.OPEN
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    cell: int | None = None
    see: str = ""
    blocks: bool = False  # NVIDIA-only: the guarded region that holds it stays as it is
    guards: str = ""  # the rule says so: a "test" or a "choice" of a device, which guards code
    follows: bool = False  # a device-type test: rewritten only together with something that it guards

    def with_status(self, status: Status) -> Finding:
        return replace(self, status=status)


def choose(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Split fixable findings, in order of preference, into those that fit together and those that collide."""
    taken = Occupied()
    chosen: list[Finding] = []
    dropped: list[Finding] = []
    for finding in findings:
        assert finding.fix is not None
        (chosen if taken.add(finding.fix.edits) else dropped).append(finding)
    return chosen, dropped


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Nothing to rewrite; `findings` may still need a person."""

    path: Path
    findings: tuple[Finding, ...] = ()
    text: bytes | None = None  # what was read, where that is not what the file holds
    unread: str = ""  # what is wrong with cells that were not read


@dataclass(frozen=True, slots=True)
class Changed:
    """`before` and `after` are the file's bytes; `applied` were rewritten (positions in `before`), `findings` remain
    (positions in `after`)."""

    path: Path
    before: bytes
    after: bytes
    applied: tuple[Finding, ...]
    findings: tuple[Finding, ...] = ()
    new: bool = False  # a file that did not exist: the vendored helper
    unread: str = ""  # what is wrong with cells that were not read


@dataclass(frozen=True, slots=True)
class Skipped:
    """Not looked at, by the user's wish (excluded, `skip-file`)."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Could not be read, parsed or rewritten: exit status 2."""

    path: Path
    error: str


FileResult = Unchanged | Changed | Skipped | Failed


def failures(results: Iterable[FileResult]) -> Iterator[Failed]:
    """Files that could not be read, and those of which a part could not."""
    for result in results:
        if isinstance(result, Failed):
            yield result
        elif isinstance(result, (Changed, Unchanged)) and result.unread:
            yield Failed(result.path, result.unread)


def shifted(findings: Iterable[Finding], edit: Edit, line: int) -> Iterator[Finding]:
    """Findings of a text after `edit`, which stands on this line, inserted whole lines or a part of that one."""
    lines, size = edit.text.count("\n") or edit.text.count("\r"), len(edit.text.encode())
    for f in findings:
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
    """The source lines of one result: positions are in `after`, or in the file where nothing was rewritten."""

    result: FileResult
    before: bool

    @cached_property
    def _raw(self) -> bytes:
        if isinstance(self.result, Changed):
            return self.result.before if self.before else self.result.after
        if isinstance(self.result, Unchanged) and self.result.text is not None:
            return self.result.text
        try:
            return file_io.read(self.result.path)
        except OSError:
            return b""

    @cached_property
    def _module(self) -> list[str]:
        from torchmigrate.source import encoding

        try:
            return split_lines(encoding.decode(self._raw).text)
        except encoding.UnreadableSource:
            return []

    @cached_property
    def _cells(self) -> list[list[str]]:
        try:
            return [split_lines("".join(cell["source"])) for cell in json.loads(self._raw)["cells"]]
        except (ValueError, KeyError, TypeError):
            return []

    def line(self, finding: Finding) -> str | None:
        return next((line for number, line in self.around(finding, 0) if number == finding.line), None)

    def around(self, finding: Finding, more: int) -> list[tuple[int, str]]:
        """The line of a finding and so many on each side, of the same cell, with their numbers."""
        if finding.cell is None:
            found = self._module
        else:
            found = self._cells[finding.cell - 1] if finding.cell <= len(self._cells) else []
        near = range(max(1, finding.line - more), min(len(found), finding.line + more) + 1)
        return [(number, found[number - 1].rstrip()) for number in near]

    def own(self, finding: Finding) -> list[str]:
        """All lines of a finding."""
        more = max(finding.line, finding.end_line) - finding.line
        return [line for number, line in self.around(finding, more) if number >= finding.line]


def split_lines(text: str) -> list[str]:
    """As Python counts them: form feeds end none."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
