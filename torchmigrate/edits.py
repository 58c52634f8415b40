"""What a rule yields and what a run returns: Edit, Fix, Finding, and the result of one file.

All offsets are byte offsets into the UTF-8 text of one module (source.py), the unit `ast` and LibCST both speak.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path


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


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace bytes [start, end) by `text`; start == end inserts."""

    start: int
    end: int
    text: str


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
    follows: bool = False  # a device-type test: rewritten only together with something that it guards

    def with_status(self, status: Status) -> Finding:
        return replace(self, status=status)


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


def compose(buffer: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply non-overlapping edits. Raises ValueError on an overlap: choosing is the engine's work (`choose`)."""
    out: list[bytes] = []
    position = 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise ValueError(f"overlapping edits at byte {edit.start}")
        out += (buffer[position : edit.start], edit.text.encode())
        position = edit.end
    out.append(buffer[position:])
    return b"".join(out)


def choose(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Split fixable findings, in order of preference, into those that fit together and those that collide."""
    taken = Occupied()
    chosen: list[Finding] = []
    dropped: list[Finding] = []
    for finding in findings:
        assert finding.fix is not None
        (chosen if taken.add(finding.fix.edits) else dropped).append(finding)
    return chosen, dropped


@dataclass(slots=True)
class Occupied:
    """The spans already edited. Equal edits count once; two insertions at one place collide."""

    starts: list[int] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)

    def add(self, edits: Iterable[Edit]) -> bool:
        fresh = [e for e in sorted(set(edits)) if not self._has(e)]
        if any(map(self._collides, fresh)) or any(_overlap(a, b) for a, b in itertools.pairwise(fresh)):
            return False
        for edit in fresh:
            at = bisect.bisect_left(self.edits, edit)
            self.edits.insert(at, edit)
            self.starts.insert(at, edit.start)
        return True

    def _has(self, edit: Edit) -> bool:
        at = bisect.bisect_left(self.edits, edit)
        return at < len(self.edits) and self.edits[at] == edit

    def _collides(self, edit: Edit) -> bool:
        at = bisect.bisect_left(self.starts, edit.start)
        near = self.edits[max(0, at - 1) : at + 2]
        return any(_overlap(edit, other) for other in near)


def _overlap(a: Edit, b: Edit) -> bool:
    return (a.start < b.end and b.start < a.end) or a.start == b.start
