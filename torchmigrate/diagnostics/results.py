"""The result of one file: unchanged, changed, skipped or failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.source.edits import Edit


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
