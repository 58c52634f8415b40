"""Positions of findings for other programs: git's file names, lines, columns in UTF-16 units, fingerprints."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.diagnostics.finding import Finding, Status, split_lines
from torchmigrate.formats.model import Report
from torchmigrate.source import json_text, text_file
from torchmigrate.source.encoding import UnreadableSource, decode
from torchmigrate.vcs import git_tree

_WIDEST = 500  # characters of a line that reports show whole
_LONGEST = 10_000  # characters of a line that is hashed for each finding in it


@dataclass(frozen=True, slots=True)
class Entry:
    """A finding in its file, with its `source` line, and a `fingerprint` that stays when lines shift.

    `line` is that of the file, also of a notebook's JSON; `column` counts from 1 in UTF-16 units, None in a notebook.
    """

    finding: Finding
    path: Path
    name: str
    line: int
    end_line: int
    column: int | None
    end_column: int | None
    source: str
    fingerprint: str

    @property
    def suppressed(self) -> bool:
        """Return whether a comment in the source or a baseline suppresses the finding."""
        return self.finding.status in (Status.SUPPRESSED, Status.KNOWN)

    @property
    def message(self) -> str:
        """The message, with the cell and its line for a notebook, whose `line` is of the JSON file."""
        f = self.finding
        return f.message if f.cell is None else f"cell {f.cell}, line {f.line}: {f.message}"


def base_of(report: Report) -> Path:
    """Return the top of the git work tree of the files read, else of the current one, else the current directory."""
    paths = [os.fspath(result.path.parent) for result in report.results]
    try:
        start = Path(os.path.commonpath(paths)) if paths else report.here
    except ValueError:  # the paths are on two drives
        start = report.here
    return git_tree.marker(start) or git_tree.marker(report.here) or report.here


def name_of(path: Path, base: Path) -> str:
    """Return the path relative to `base` if it lies below, with slashes, as Unicode that every encoding can write."""
    name = path.relative_to(base) if path.is_relative_to(base) else path
    return os.fsencode(name.as_posix()).decode("utf-8", "replace")


def entries(report: Report, base: Path) -> list[Entry]:
    """Return the findings of a `check`, by file and place, including suppressed ones."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found: list[Entry] = []
    for result in sorted(report.results, key=lambda r: name_of(r.path, base)):
        mine = [f for f in report.of(result) if f.status is not Status.LEFT]
        text = FileText(result.path) if mine else None
        for finding in sorted(mine, key=lambda f: (f.cell or 0, f.line, f.column, f.rule, f.message)):
            assert text is not None
            found.append(_entry(finding, result.path, name_of(result.path, base), text, seen))
    return found


def _entry(finding: Finding, path: Path, name: str, text: FileText, seen: Counter[tuple[str, str, str]]) -> Entry:
    line = text.line(finding.cell, finding.line)
    source = line if len(line) <= _WIDEST else _shown(line, finding)
    same = (finding.rule, name, _key(line))
    digest = hashlib.sha256("\0".join([*same, str(seen[same])]).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    seen[same] += 1
    if finding.cell is not None:
        first, last = (text.file_line(finding.cell, line) for line in (finding.line, finding.end_line))
        return Entry(finding, path, name, first, max(first, last), None, None, source, digest)
    column = utf16(line, finding.column)
    end_line = max(finding.line, finding.end_line)
    end_column = utf16(text.line(None, end_line), max(finding.end_column, 1))
    if end_line == finding.line:
        end_column = max(column, end_column)
    return Entry(finding, path, name, max(1, finding.line), max(1, end_line), column, end_column, source, digest)


def _shown(line: str, finding: Finding) -> str:
    """Return what a report shows of a long line: the finding itself, as others may stand in the same line."""
    end = finding.end_column - 1 if finding.end_line == finding.line else len(line)
    return line[finding.column - 1 : min(end, finding.column - 1 + _WIDEST)]


@lru_cache(maxsize=16)
def _key(line: str) -> str:
    """Return what stands for a line in fingerprints: the line, or its digest if it is very long."""
    if len(line) <= _LONGEST:
        return line.strip()
    return hashlib.sha256(line.strip().encode("utf-8", "surrogatepass")).hexdigest()


def utf16(line: str, column: int) -> int:
    """Convert a 1-based column in characters to one in UTF-16 units: an emoji counts two."""
    if line.isascii():
        return max(column, 1)
    before = line[: max(column, 1) - 1]
    return max(column, 1) - len(before) + len(before.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(frozen=True)
class FileText:
    """The lines of a file as it is now."""

    path: Path

    @cached_property
    def _raw(self) -> bytes:
        try:
            return file_io.read(self.path)
        except OSError:
            return b""

    @cached_property
    def _text(self) -> str:
        try:
            return decode(self._raw).text
        except UnreadableSource:  # not Python: UTF-16, or in no encoding
            return text_file.decode(self._raw) or ""

    @cached_property
    def _lines(self) -> list[str]:
        return split_lines(self._text)

    @cached_property
    def _cells(self) -> list[tuple[list[str], list[int]]]:
        """The lines of each cell, and for each line the line of the JSON text where it begins."""
        text = self._raw.decode("utf-8-sig", "replace")
        try:
            return [_cell(text, span) for span in json_text.source_spans(text)]
        except (ValueError, IndexError, TypeError):
            return []

    def line(self, cell: int | None, number: int) -> str:
        """Return one line of code; "" if it does not exist."""
        lines = self._lines if cell is None else self._cell_lines(cell)[0]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def file_line(self, cell: int, number: int) -> int:
        """Return the line of the .ipynb file that holds a line of a cell; 1 if unknown."""
        places = self._cell_lines(cell)[1]
        return places[number - 1] if 0 < number <= len(places) else 1

    def _cell_lines(self, cell: int) -> tuple[list[str], list[int]]:
        return self._cells[cell - 1] if 0 < cell <= len(self._cells) else ([], [])


def _cell(text: str, span: tuple[int, int] | None) -> tuple[list[str], list[int]]:
    if span is None:
        return [], []
    value = json.loads(text[slice(*span)])
    return split_lines(value if isinstance(value, str) else "".join(value)), json_text.line_numbers(text, span)
