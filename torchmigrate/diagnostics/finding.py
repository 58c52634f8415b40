"""A finding: one place that a rule speaks about, with the fix that it offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

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
