""".ipynb <-> one virtual module: Python cells joined, magics masked, edits spliced into `source` values alone."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torchmigrate.source import encoding, magics
from torchmigrate.source.edits import Edit
from torchmigrate.source.encoding import Source
from torchmigrate.source.json_text import source_spans, splice

# Between two cells a line end and a statement: nothing in one, a comment at its end either, belongs to the next.
SEPARATOR = b"\n0\n"


class UnreadableNotebook(ValueError):
    """The file is no notebook that can be rewritten; says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A Python cell. `number` counts all cells from 1, as people do; it is bytes [start, end) of the virtual module,
    of which `masked` are not its own. `span` is its `source` value in the file's text. `head`: where code may begin,
    below `%%` lines. `alone`: what it binds is gone when it ends."""

    number: int
    start: int
    end: int
    text: str
    masked: tuple[tuple[int, int], ...]
    span: tuple[int, int]
    head: int
    alone: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """A cell that is left out: no Python (`why`, `line`), or what its `magic` makes something else of."""

    number: int
    line: int
    text: str
    magic: str | None
    why: str = ""


@dataclass(frozen=True)
class Notebook:
    """A notebook as one module; one in another `language` has no cells here."""

    raw: str
    bom: bytes
    source: Source
    cells: tuple[Cell, ...]
    unread: tuple[Unread, ...] = ()
    language: str | None = None

    def cell_of(self, offset: int) -> tuple[int, int]:
        """(number of the cell, line in it), both from 1. What lies between two cells counts as the end of the first."""
        cell = self.cell_at(offset)
        inside = self.source.utf8[cell.start : min(offset, cell.end)]
        return cell.number, inside.count(b"\n") + 1

    def join(self, edits: Sequence[Edit]) -> bytes:
        """The file's new bytes. All but the `source` values of edited cells is as it was; in those, every line that
        is not edited is as it was."""
        by_cell: dict[Cell, list[Edit]] = {}
        for edit in sorted(set(edits)):
            cell = self.cell_at(edit.start)
            by_cell.setdefault(cell, []).append(self._in_cell(edit, cell))
        text: list[str] = []
        at = 0
        for cell, inside in sorted(by_cell.items(), key=lambda item: item[0].span):
            utf8 = cell.text.encode()
            edited = [(len(utf8[: e.start].decode()), len(utf8[: e.end].decode()), e.text) for e in inside]
            text += (self.raw[at : cell.span[0]], splice(self.raw[slice(*cell.span)], edited, self._ascii))
            at = cell.span[1]
        return self.bom + "".join([*text, self.raw[at:]]).encode()

    def cell_at(self, offset: int) -> Cell:
        """The cell that holds a byte of the module."""
        if not self.cells:
            raise UnreadableNotebook("no Python cells")
        return self.cells[max(0, bisect.bisect_right([cell.start for cell in self.cells], offset) - 1)]

    def _in_cell(self, edit: Edit, cell: Cell) -> Edit:
        start, end, text = edit.start, edit.end, edit.text
        if start == end < cell.head:  # a line to go above all others
            start = end = cell.head
            if self.source.utf8[cell.head - 1 : cell.head] != b"\n":
                text = "\n" + text.removesuffix("\n")
        if end > cell.end:
            if end > cell.end + 1:
                raise UnreadableNotebook(f"an edit reaches over the end of cell {cell.number}")
            if start > cell.end:  # a line after the last one, which has no line end of its own
                text = "\n" + text if text else ""
            end = cell.end
            if text.endswith("\n"):  # the line end is the separator's
                text = text[:-1].removesuffix("\r")
        if any(a < end and start < b for a, b in cell.masked):
            raise UnreadableNotebook(f"an edit covers a magic in cell {cell.number}")
        return Edit(min(start, cell.end) - cell.start, end - cell.start, text)

    @cached_property
    def _ascii(self) -> bool:
        """Was it written with `ensure_ascii`?"""
        return self.raw.isascii() and re.search(r"\\u(?!00[0-7])", self.raw) is not None


def split(raw: bytes) -> Notebook:
    """Read a notebook. Raises UnreadableNotebook."""
    bom = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    text = _text(raw[len(bom) :])
    data = _data(text)
    language = _language(data)
    pairs = list(zip(data["cells"], source_spans(text), strict=True))
    cells, unread, module = [], [], bytearray()
    for number, (cell, span) in enumerate([] if language else pairs, 1):
        source = _source(cell)
        if span is None or source is None:
            continue
        try:
            if magic := magics.foreign(source):
                unread.append(Unread(number, 1, source, magic))
                continue
            masked = magics.masked(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            other = f"not Python 3 ({str(error) or type(error).__name__})"
            why = encoding.syntax_message(error) if isinstance(error, SyntaxError) else other
            unread.append(Unread(number, getattr(error, "lineno", None) or 1, source, None, why))
            continue
        start = len(module)
        module += masked.utf8
        own = tuple((start + a, start + b) for a, b in masked.spans)
        cells.append(Cell(number, start, len(module), source, own, span, start + masked.head, masked.alone))
        module += SEPARATOR
    return Notebook(text, bom, Source(bytes(module)), tuple(cells), tuple(unread), language)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnreadableNotebook("not UTF-8") from None


def _data(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableNotebook(f"not JSON: {error}") from None
    if not isinstance(data, dict) or not data.keys() & {"cells", "worksheets"}:
        raise UnreadableNotebook("JSON, but no notebook: it has no cells")
    if "worksheets" in data or not isinstance(data["cells"], list):
        raise UnreadableNotebook("a notebook of format 3; `jupyter nbconvert --to notebook` makes it one of format 4")
    return data


def _language(data: dict[str, Any]) -> str | None:
    """Of the kernel; None for Python, and where nothing says which."""
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    infos = (metadata.get("kernelspec"), metadata.get("language_info"))
    languages = [info.get(key) for info, key in zip(infos, ("language", "name"), strict=True) if isinstance(info, dict)]
    named = [str(language) for language in languages if language]
    python = any(name.lower().startswith(("python", "ipython", "sage")) for name in named)
    return named[0] if named and not python else None


def _source(cell: object) -> str | None:
    """The text of a code cell."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    return source if isinstance(source, str) and source.strip() else None
