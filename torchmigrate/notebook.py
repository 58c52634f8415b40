""".ipynb <-> one virtual module: Python cells joined, magics masked, edits spliced into `source` values alone."""

from __future__ import annotations

import ast
import bisect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchmigrate.edits import Edit, compose
from torchmigrate.json_text import source_spans, splice
from torchmigrate.source import Source

# A line that ends the last cell and a blank one: "the line after this one" is then never in the next cell.
_SEPARATOR = b"\n\n"
_PYTHON_MAGICS = {"time", "timeit", "capture", "prun", "lprun", "mprun", "memit", "debug", "snakeviz", "scalene"}
_MAGIC = re.compile(r"\s*(?:[%!?]|[^#'\"]*\?\s*$)")
_ASSIGNED = re.compile(r"(\s*[\w.,\s\[\]'\"]+=\s*)[%!]")


class UnreadableNotebook(ValueError):
    """The file is no notebook that can be rewritten; says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A Python cell. `number` counts all cells from 1, as people do; it is bytes [start, end) of the virtual module,
    of which `masked` are not its own. `span` is its `source` value in the file's text."""

    number: int
    start: int
    end: int
    text: str
    masked: tuple[tuple[int, int], ...]
    span: tuple[int, int]


@dataclass(frozen=True)
class Notebook:
    """A notebook as one module. `bad_cells`: number and what is wrong; they are left out."""

    raw: str
    bom: bytes
    source: Source
    cells: tuple[Cell, ...]
    bad_cells: tuple[tuple[int, str], ...] = ()

    def cell_of(self, offset: int) -> tuple[int, int]:
        """(number of the cell, line in it), both from 1. What lies between two cells counts as the end of the first."""
        cell = self._cell(offset)
        inside = self.source.utf8[cell.start : min(offset, cell.end)]
        return cell.number, inside.count(b"\n") + 1

    def join(self, edits: Sequence[Edit]) -> bytes:
        """The file's new bytes. All but the `source` values of edited cells is as it was; in those, every line that
        is not edited is as it was."""
        by_cell: dict[Cell, list[Edit]] = {}
        for edit in sorted(set(edits)):
            cell = self._cell(edit.start)
            by_cell.setdefault(cell, []).append(self._in_cell(edit, cell))
        text: list[str] = []
        at = 0
        for cell, inside in sorted(by_cell.items(), key=lambda item: item[0].span):
            new = compose(cell.text.encode(), inside).decode()
            text += (self.raw[at : cell.span[0]], splice(self.raw[slice(*cell.span)], new, self._ascii))
            at = cell.span[1]
        return self.bom + "".join([*text, self.raw[at:]]).encode()

    def _cell(self, offset: int) -> Cell:
        if not self.cells:
            raise UnreadableNotebook("no Python cells")
        return self.cells[max(0, bisect.bisect_right([cell.start for cell in self.cells], offset) - 1)]

    def _in_cell(self, edit: Edit, cell: Cell) -> Edit:
        end, text = edit.end, edit.text
        if edit.end > cell.end:
            if edit.end > cell.end + len(_SEPARATOR):
                raise UnreadableNotebook(f"an edit reaches over the end of cell {cell.number}")
            end = cell.end
            if text.endswith("\n"):  # the line end is the separator's
                text = text[:-1].removesuffix("\r")
        if edit.start > cell.end:  # a line after the last one, which has no line end of its own
            text = "\n" + text if text else ""
        if any(start < end and edit.start < stop for start, stop in cell.masked):
            raise UnreadableNotebook(f"an edit covers a magic in cell {cell.number}")
        return Edit(min(edit.start, cell.end) - cell.start, end - cell.start, text)

    @cached_property
    def _ascii(self) -> bool:
        """Was it written with `ensure_ascii`?"""
        return self.raw.isascii() and re.search(r"\\u(?!00[0-7])", self.raw) is not None


def split(raw: bytes) -> Notebook:
    """Read a notebook. Raises UnreadableNotebook."""
    bom = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    try:
        text = raw[len(bom) :].decode()
        data = json.loads(text)
    except UnicodeDecodeError:
        raise UnreadableNotebook("not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableNotebook(f"not JSON: {error}") from None
    if not isinstance(data, dict) or not data.keys() & {"cells", "worksheets"}:
        raise UnreadableNotebook("JSON, but no notebook: it has no cells")
    if "worksheets" in data or not isinstance(data["cells"], list):
        raise UnreadableNotebook("a notebook of format 3; `jupyter nbconvert --to notebook` makes it one of format 4")
    pairs = list(zip(data["cells"], source_spans(text), strict=True))
    cells, bad, module = [], [], bytearray()
    for number, (cell, span) in enumerate(pairs if _is_python(data) else [], 1):
        source = _source(cell)
        if span is None or source is None:
            continue
        try:
            masked, spans = _mask(source)
        except (SyntaxError, ValueError) as error:
            bad.append((number, getattr(error, "msg", None) or str(error)))
            continue
        if masked is not None:
            start = len(module)
            module += masked
            own = tuple((start + a, start + b) for a, b in spans)
            cells.append(Cell(number, start, len(module), source, own, span))
            module += _SEPARATOR
    return Notebook(text, bom, Source(bytes(module)), tuple(cells), tuple(bad))


def _is_python(data: dict[str, object]) -> bool:
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    infos = (metadata.get("kernelspec"), metadata.get("language_info"))
    languages = [info.get(key) for info, key in zip(infos, ("language", "name"), strict=True) if isinstance(info, dict)]
    named = [str(language).lower() for language in languages if language]
    return not named or any(name.startswith(("python", "ipython", "sage")) for name in named)


def _source(cell: object) -> str | None:
    """The text of a code cell."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    return source if isinstance(source, str) and source.strip() else None


def _mask(text: str) -> tuple[bytes | None, list[tuple[int, int]]]:
    """The cell as Python of the same length, and the spans that stand in for magics. None: another language's cell.
    Raises SyntaxError. What looks like a magic is one only where Python does not parse: `% b` may go on a line."""
    lines = text.encode().split(b"\n")
    masked: set[int] = set()
    first = next(i for i, line in enumerate(lines) if line.strip())
    if lines[first].startswith(b"%%"):
        name = re.match(rb"%%(\w*)", lines[first])
        if name is None or name[1].decode() not in _PYTHON_MAGICS:
            return None, []
        _hide(lines, first, masked)
    while True:
        try:
            ast.parse(b"\n".join(lines))
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            if at in masked or not 0 <= at < len(lines) or not _is_magic(lines[at]):
                raise
            _hide(lines, at, masked)
        else:
            return b"\n".join(lines), list(_spans(text.encode().split(b"\n"), lines))


def _is_magic(line: bytes) -> bool:
    text = line.decode()
    return bool(_MAGIC.match(text) or _ASSIGNED.match(text))


def _hide(lines: list[bytes], at: int, masked: set[int]) -> None:
    """Put `0###` of the same length for a magic, and for the lines that it goes on over."""
    first = at
    while at < len(lines):
        masked.add(at)
        text = lines[at].rstrip(b"\r")
        assigned = _ASSIGNED.match(text.decode())
        keep = len(assigned[1].encode()) if assigned else len(text) - len(text.lstrip())
        goes_on = text.endswith(b"\\")
        size = len(text) - keep
        mask = b"0".ljust(size, b"#") if at == first else b"#" * size
        lines[at] = text[:keep] + mask + lines[at][len(text) :]
        at += 1
        if not goes_on:
            return


def _spans(before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    at = 0
    for old, new in zip(before, after, strict=True):
        if old != new:
            yield at, at + len(new)
        at += len(new) + 1
