"""Read a notebook's Python cells as one virtual module, magics masked; edits change `source` values alone."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torchmigrate.base.system import syntax_tree
from torchmigrate.source import encoding
from torchmigrate.source.edits import Edit
from torchmigrate.source.encoding import Source
from torchmigrate.source.json_text import source_spans, splice, with_item

# A statement stands between two cells, so that nothing in one cell, not even a comment at its end, belongs to the next.
SEPARATOR = b"\n0\n"


class UnreadableNotebook(ValueError):
    """The file is not a notebook that can be rewritten; the message says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A Python cell of a notebook, bytes [start, end) of the virtual module.

    `number` counts all cells from 1; `masked` are the spans that replace magics; `span` is its `source` value in the
    file's text, in characters; `head` is the offset below the `%%` lines, where code may begin; `alone` means that
    names bound in the cell are gone when it ends (`%%timeit`).
    """

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
    """A cell that is not read: it is not Python (`why`, `line`), or its `magic` makes it something else."""

    number: int
    line: int
    text: str
    magic: str | None
    why: str = ""


@dataclass(frozen=True)
class Notebook:
    """A notebook as one virtual module; a notebook in another `language` has no cells here."""

    raw: str
    bom: bytes
    source: Source
    cells: tuple[Cell, ...]
    unread: tuple[Unread, ...] = ()
    language: str | None = None

    def cell_of(self, offset: int) -> tuple[int, int]:
        """Return the number of the cell that contains, or ends before, an offset, and the line in it, both from 1."""
        cell = self.cell_at(offset)
        inside = self.source.utf8[cell.start : min(offset, cell.end)]
        return cell.number, inside.count(b"\n") + 1

    def join(self, edits: Sequence[Edit]) -> bytes:
        """Return the file's new bytes after edits of the virtual module; only edited lines of cells change."""
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
        """Return the cell that contains an offset of the virtual module; raises UnreadableNotebook without cells."""
        if not self.cells:
            raise UnreadableNotebook("no Python cells")
        return self.cells[max(0, bisect.bisect_right([cell.start for cell in self.cells], offset) - 1)]

    def with_text(self, cell: Cell, text: str) -> bytes:
        """Return the file's new bytes with another text in a cell."""
        start, end = cell.span
        new = splice(self.raw[start:end], [(0, len(cell.text), text)], self._ascii)
        return self.bom + f"{self.raw[:start]}{new}{self.raw[end:]}".encode()

    def magics(self) -> Iterator[str]:
        """Yield the lines that IPython reads."""
        for cell in self.cells:
            text = cell.text.encode()
            yield from (text[start - cell.start : end - cell.start].decode() for start, end in cell.masked)

    def _in_cell(self, edit: Edit, cell: Cell) -> Edit:
        """Translate an edit to offsets in the cell; raises UnreadableNotebook if it covers a magic or ends outside."""
        start, end, text = edit.start, edit.end, edit.text
        if start == end < cell.head:  # a line that goes above all others
            start = end = cell.head
            if self.source.utf8[cell.head - 1 : cell.head] != b"\n":
                text = "\n" + text.removesuffix("\n")
        if end > cell.end:
            if end > cell.end + 1:
                raise UnreadableNotebook(f"an edit reaches over the end of cell {cell.number}")
            if start > cell.end:  # a line after the cell's last one, which has no line end
                text = "\n" + text if text else ""
            end = cell.end
            if text.endswith("\n"):  # the separator already provides the line end
                text = text[:-1].removesuffix("\r")
        if any(a < end and start < b for a, b in cell.masked):
            raise UnreadableNotebook(f"an edit covers a magic in cell {cell.number}")
        return Edit(min(start, cell.end) - cell.start, end - cell.start, text)

    @cached_property
    def _ascii(self) -> bool:
        """Return whether the notebook was written with `ensure_ascii`."""
        return self.raw.isascii() and re.search(r"\\u(?!00[0-7])", self.raw) is not None


def with_cell(raw: bytes, at: int, text: str) -> bytes:
    """Return a notebook with one more code cell, which becomes number `at` + 1; all others stay as they are."""
    bom = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    json_text = _decode_utf8(raw[len(bom) :])
    cells = _parse_json(json_text)["cells"]
    taken = {cell["id"] for cell in cells if isinstance(cell, dict) and "id" in cell}
    name = next(name for name in ("accel", *(f"accel-{n}" for n in range(len(taken) + 1))) if name not in taken)
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, **({"id": name} if taken else {})}
    cell |= {"metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)}
    return bom + with_item(json_text, "cells", at, cell).encode()


def split(raw: bytes) -> Notebook:
    """Read a notebook; raises UnreadableNotebook if it is not one, or of an old format."""
    bom = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    text = _decode_utf8(raw[len(bom) :])
    data = _parse_json(text)
    language = _language(data)
    pairs = list(zip(data["cells"], source_spans(text), strict=True))
    cells, unread, module = [], [], bytearray()
    for number, (cell, span) in enumerate([] if language else pairs, 1):
        source = _code_of_cell(cell)
        if span is None or source is None:
            continue
        try:
            if magic := foreign(source):
                unread.append(Unread(number, 1, source, magic))
                continue
            code = masked(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            other = f"not Python 3 ({str(error) or type(error).__name__})"
            why = encoding.syntax_message(error) if isinstance(error, SyntaxError) else other
            unread.append(Unread(number, getattr(error, "lineno", None) or 1, source, None, why))
            continue
        start = len(module)
        module += code.utf8
        masked_spans = tuple((start + a, start + b) for a, b in code.spans)
        cells.append(Cell(number, start, len(module), source, masked_spans, span, start + code.head, code.alone))
        module += SEPARATOR
    return Notebook(text, bom, Source(bytes(module)), tuple(cells), tuple(unread), language)


def _decode_utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnreadableNotebook("not UTF-8") from None


def _parse_json(text: str) -> dict[str, Any]:
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
    """Return the kernel's language, or None for Python and for notebooks that do not say."""
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    infos = (metadata.get("kernelspec"), metadata.get("language_info"))
    languages = [info.get(key) for info, key in zip(infos, ("language", "name"), strict=True) if isinstance(info, dict)]
    named = [str(language) for language in languages if language]
    python = any(name.lower().startswith(("python", "ipython", "sage")) for name in named)
    return named[0] if named and not python else None


def _code_of_cell(cell: object) -> str | None:
    """Return the text of a code cell, or None for other cells and for empty ones."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    return source if isinstance(source, str) and source.strip() else None


# cell magics under which the rest of the cell runs as ordinary Python
_PYTHON_MAGICS = frozenset(
    ("time", "timeit", "capture", "prun", "lprun", "mprun", "memit", "debug", "snakeviz", "scalene", "pyinstrument")
)
# IPython runs these without a `%`, unless what follows makes the line Python
_AUTOMAGIC = (
    rb"(?:pip|conda|mamba|micromamba|uv|cd|ls|ll|mkdir|rmdir|rm|cat|cp|mv|run|env|set_env|time|timeit|matplotlib"
    rb"|load_ext|reload_ext|autoreload)[ \t]+(?!(?:in|is|if|and|or|not|for|else)\b)[\w./~$'\"-]"
)
_REST = rb"[^\n]*(?:(?:(?<=\\)|(?<=\\\r))\n[^\n]*)*"  # the rest of a line, with its continuations after a backslash
_LINE = re.compile(rb"[ \t]*(?P<it>(?:[%!?]|" + _AUTOMAGIC + rb")" + _REST + rb")")
_RIGHT = re.compile(rb"[ \t]*(?P<it>(?:!|%(?=[a-zA-Z_]))" + _REST + rb")")
_PIECE = re.compile(
    rb"\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    rb"|#[^\n]*|\\\r?\n|[ \t\r\f]+|\w+|[-+*/%&|^@<>!=:]=|.",
    re.S,
)
_CELL = re.compile(rb"\s*^%%([\w!]+)[^\r\n]*", re.M)
_TIMED = re.compile(rb"%(?:time|timeit|prun|memit)(?:[ \t]+-[a-zA-Z]+(?:[ \t]*\d+)?(?=[ \t]))*[ \t]+(?=\S)")


@dataclass(frozen=True, slots=True)
class Masked:
    """A Python cell with statements of the same length in the place of its magics.

    `spans` are the replaced parts. `head` is the offset below the `%%` lines, where code may begin. `alone` means that
    names bound here are gone when the cell ends.
    """

    utf8: bytes
    spans: tuple[tuple[int, int], ...]
    head: int
    alone: bool


def foreign(text: str) -> str | None:
    """Return the `%%` line that makes a cell something else than Python of this notebook, or None."""
    for head in _heads(text.encode()):
        if head[1].decode() not in _PYTHON_MAGICS:
            return head[0].decode().strip()
    return None


def masked(text: str) -> Masked:
    """Mask the magics of a Python cell; raises SyntaxError, ValueError or RecursionError if it is not Python.

    A cell that is valid Python has none: a continued line may begin with `% b`.
    """
    raw = text.encode()
    heads = list(_heads(raw))
    head = heads[-1].end() if heads else 0
    below = head + len(raw[head:]) - len(raw[head:].removeprefix(b"\r").removeprefix(b"\n")) if heads else 0
    spans = [(m.end() - len(m[0].lstrip()), m.end()) for m in heads]
    code = _mask_spans(raw, spans)
    if not _parses(code):
        spans += _magics(raw, head)
        code = _mask_spans(raw, spans)
        syntax_tree(code)
    code, helper = encoding.helper_hidden(code)
    spans += [helper] if helper else []
    return Masked(code, tuple(spans), below, any(m[1] == b"timeit" for m in heads))


def _heads(raw: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the `%%` lines at the top of a cell; there may be several, such as `%%capture` above `%%time`."""
    at = 0
    while match := _CELL.match(raw, at):
        yield match
        if match[1].decode() not in _PYTHON_MAGICS:
            return
        at = match.end()


def _parses(raw: bytes) -> bool:
    try:
        syntax_tree(raw)
    except SyntaxError:
        return False
    return True


def _mask_spans(raw: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Replace each span, line by line, by `0###`, or by `0  ;` if code follows on the line."""
    out = bytearray(raw)
    for start, end in spans:
        mask = re.sub(rb"[^\r\n]", b"#", raw[start:end])
        if raw[end : end + 1] not in (b"\r", b"\n", b""):
            mask = b" " * (len(mask) - 1) + b";"
        out[start:end] = b"0" + mask[1:]
    return bytes(out)


def _magics(raw: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield the spans that IPython reads: lines with a magic, right sides of assignments, and `name?` lines."""
    depth, head, last = 0, at, -1
    while at < len(raw):
        if at == head and (line := _LINE.match(raw, at)):
            yield _magic_span(raw, *line.span("it"))
            at = head = line.end() + 1
            continue
        piece = _PIECE.match(raw, at)
        assert piece is not None
        at = piece.end()
        if piece[0] == b"\n" and depth <= 0:
            yield from _help_span(raw, head, last)
            head, depth = at, 0
        elif piece[0] == b"=" and depth <= 0 and (right := _RIGHT.match(raw, at)):
            yield right.span("it")
            at = head = right.end() + 1
        else:
            depth += (piece[0] in b"([{") - (piece[0] in b")]}")
            last = last if piece[0][:1] in b" \t\r\n\f#\\" else piece.start()
    yield from _help_span(raw, head, last)


def _help_span(raw: bytes, head: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the span of a logical line that ends with `?`."""
    if head <= last and raw[last : last + 1] == b"?":
        yield last + 1 - len(raw[head : last + 1].lstrip()), last + 1


def _magic_span(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the span of a magic; for `%time x = f()`, only up to the code, which is Python."""
    end -= raw[start:end].endswith(b"\r")
    timed = _TIMED.match(raw, start, end)
    if timed and b"\n" not in raw[start:end] and _parses(b"0;" + raw[timed.end() : end]):
        return start, timed.end()
    return start, end
