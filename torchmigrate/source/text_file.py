"""Read a file that is not Python for text rules: its lines without comments, and the tables that contain them."""

from __future__ import annotations

import bisect
import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from torchmigrate.source.encoding import UTF16

LONGEST = 4_000  # characters of a line with its continuations: a longer one is data
_NEWLINE = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"(?:[^\r\n\\]+|\\(?:\r?\n(?:[ \t]*\r?\n)*)?)+")
_QUOTED = r""""(?:[^"\\\r\n]|\\.)*"|(?<!\w)'[^'\r\n]*'"""  # not the apostrophe of `it's`
_HASH = re.compile(rf"{_QUOTED}|(?<!\S)#[^\r\n]*")
_INI = re.compile(rf"{_QUOTED}|(?<!\S)#[^\r\n]*|^;[^\r\n]*", re.M)
_SLASHES = re.compile(rf"{_QUOTED}|(?<!\S)//[^\r\n]*")
_BATCH = re.compile(r"^[ \t]*(?:@?rem\b|::)[^\r\n]*", re.M | re.I)
_STYLES = {"bat": _BATCH, "ini": _INI, "cfg": _INI, "json": _SLASHES, "cu": _SLASHES, "cuh": _SLASHES}
_TABLED = ("toml", "ini", "cfg", "Pipfile")
_HEADER = re.compile(r"\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*$")
_KEY = re.compile(r"""["']?([\w.-]+)["']?\s*=(?!=)""")


def decode(raw: bytes) -> str | None:
    """Decode a text file, or return None if it is binary.

    UTF-8 is read with or without a byte order mark, UTF-16 with one (PowerShell's `>`). In any other encoding, all but
    ASCII becomes replacement characters.
    """
    if raw.startswith(UTF16):
        try:
            return raw.decode("utf-16")
        except UnicodeDecodeError:
            return None
    return None if b"\0" in raw else raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its continuations, comments blanked; `start` is its offset in characters."""

    start: int
    text: str


@dataclass(frozen=True)
class TextFile:
    """A text file that is not Python; `text` has no byte order mark."""

    name: str
    text: str

    @cached_property
    def kind(self) -> str:
        """Return the file's extension, or its name if it has none."""
        return self.name.rpartition(".")[2]

    @cached_property
    def comments(self) -> list[tuple[int, str]]:
        """Return (offset in characters, text) of each comment, in the comment syntax of the file's kind."""
        style = _STYLES.get(self.kind, _HASH)
        found = (m for m in style.finditer(self.text) if m.group()[0] not in "\"'")
        return [(m.start(), m.group()) for m in found]

    @cached_property
    def code(self) -> str:
        """Return the text with comments replaced by spaces."""
        parts: list[str] = []
        end = 0
        for start, comment in self.comments:
            parts += (self.text[end:start], " " * len(comment))
            end = start + len(comment)
        return "".join((*parts, self.text[end:]))

    @cached_property
    def lines(self) -> list[Line]:
        """Return all lines that contain more than white space and comments."""
        return [Line(m.start(), m.group()) for m in _LINE.finditer(self.code) if not m.group().isspace()]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(m.end() for m in _NEWLINE.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line, and the 1-based column in characters, of an offset in characters."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Return the first and last line number of each of `lines`."""
        ends = ((line.start, line.start + len(line.text.rstrip())) for line in self.lines)
        return [(self.position(start)[0], self.position(max(start, end - 1))[0]) for start, end in ends]

    @cached_property
    def tables(self) -> dict[int, str]:
        """Return `table.key` by the start of each line; empty for kinds of files that have no tables."""
        return dict(self._tables()) if self.kind in _TABLED else {}

    def _tables(self) -> Iterator[tuple[int, str]]:
        table = key = ""
        for line in self.lines:
            if header := _HEADER.match(line.text):
                table, key = header[1], ""
            elif found := _KEY.match(line.text.lstrip() if self.kind in ("toml", "Pipfile") else line.text):
                key = found[1]
            yield line.start, f"{table}.{key}".strip(".")
