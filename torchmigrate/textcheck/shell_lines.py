"""What rules about text say of a notebook's shell lines (`!pip install`), beside what others say of its Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.diagnostics.results import Unchanged
from torchmigrate.source.notebook import Cell, Notebook
from torchmigrate.textcheck.rules import TextRules

_SHELL = re.compile(r"%%(?:bash|sh|shell|system|sx|!|script +(?:ba|z)?sh)\b|%%!")
_COMMENT = "suppression"


def added(findings: Sequence[Finding], book: Notebook, texts: TextRules, path: Path) -> Iterator[Finding]:
    """With what is found on shell lines. A comment is idle where neither Python nor the shell has a use for it."""
    cells = {cell.number: (cell.start, _lines(cell)) for cell in book.cells if cell.masked}
    cells |= {c.number: (0, _below(c.text)) for c in book.unread if c.magic and _SHELL.match(c.magic)}
    found = [f for number, (start, text) in cells.items() for f in _in_cell(number, start, text, texts, path)]
    idle = {(f.cell, f.line) for f in found if f.rule == _COMMENT}
    mine = {(f.cell, f.line) for f in findings if f.rule == _COMMENT}
    for finding in findings:
        if finding.rule != _COMMENT or finding.cell not in cells or (finding.cell, finding.line) in idle:
            yield finding
    yield from (f for f in found if f.rule != _COMMENT or ((f.cell, f.line) not in mine and not _is_python(f, cells)))


def _in_cell(number: int, start: int, text: bytes, texts: TextRules, path: Path) -> Iterator[Finding]:
    found = texts.inspect(path, text)
    for finding in found.findings if isinstance(found, Unchanged) else ():
        yield replace(finding, cell=number, start=finding.start + start, end=finding.end + start)


def _is_python(finding: Finding, cells: dict[int, tuple[int, bytes]]) -> bool:
    """Whether a comment stands on a line of its own, where it is Python's as well."""
    assert finding.cell is not None
    return cells[finding.cell][1].split(b"\n")[finding.line - 1].lstrip().startswith(b"#")


def _lines(cell: Cell) -> bytes:
    """A cell's lines that are IPython's, and comments; something in place of Python's."""
    lines: list[bytes] = []
    at = cell.start
    for line in cell.text.encode().split(b"\n"):
        is_magic = any(start <= at + len(line) and at < end for start, end in cell.masked)
        keeps = is_magic or not line.strip() or line.lstrip().startswith(b"#")
        lines.append(line if keeps else b"0".ljust(len(line)))
        at += len(line) + 1
    return b"\n".join(lines)


def _below(text: str) -> bytes:
    """Without the `%%` line."""
    first, end, rest = text.encode().partition(b"\n")
    return b" " * len(first) + end + rest
