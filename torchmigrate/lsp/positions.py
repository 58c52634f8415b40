r"""Convert positions as editors count them: lines end at \n, \r\n or \r; columns are in the agreed units."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from lsprotocol.types import Position, Range, TextDocumentContentChangeEvent, TextDocumentContentChangePartial, TextEdit

from torchmigrate.diagnostics.finding import Finding

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_END = re.compile(r"\r\n|\r|\n")
_BOM = "\ufeff"


@dataclass(frozen=True)
class Text:
    """A document's text, with LSP's `positionEncoding`: utf-8, utf-16 or utf-32."""

    text: str
    encoding: str = "utf-16"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in _END.finditer(self.text))]

    def _units(self, text: str) -> int:
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        astral = sum(character > "\uffff" for character in text) if self.encoding == "utf-16" else 0
        return len(text) + astral

    def position(self, offset: int) -> Position:
        """Return the position of an offset in characters."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return Position(line, self._units(self.text[self._starts[line] : offset]))

    def offset(self, position: Position) -> int:
        """Return the offset in characters; a position beyond the end of its line, or of the text, means that end."""
        if position.line >= len(self._starts):
            return len(self.text)
        start = self._starts[position.line]
        end = _END.search(self.text, start)
        line = self.text[start : end.start() if end else len(self.text)]
        units = 0
        for index, character in enumerate(line):
            if units >= position.character:
                return start + index
            units += self._units(character)
        return start + len(line)

    def range(self, start: int, end: int) -> Range:
        return Range(self.position(start), self.position(end))

    def range_of(self, finding: Finding) -> Range:
        """Return the range of a finding."""
        return self.between((finding.line, finding.column), (finding.end_line, finding.end_column))

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> Range:
        """Return the range between lines and columns in characters, both from 1; a byte order mark does not count."""
        first = self._at(*start)
        return self.range(first, max(first, self._at(*end)))

    def start(self, line: int) -> int:
        """Return the offset at which a line begins, counted from 1; the first begins after a byte order mark."""
        return self._at(line, 1)

    def _at(self, line: int, column: int) -> int:
        line = min(max(line, 1), len(self._starts))
        mark = line == 1 and self.text.startswith(_BOM)
        return min(self._starts[line - 1] + max(column, 1) - 1 + mark, len(self.text))

    def changed(self, change: TextDocumentContentChangeEvent) -> Text:
        """Return the text after one change that the editor reports."""
        if not isinstance(change, TextDocumentContentChangePartial):
            return Text(change.text, self.encoding)
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        return Text(self.text[:start] + change.text + self.text[end:], self.encoding)

    def edits_to(self, after: str) -> list[TextEdit]:
        """Return edits that turn the text into `after`, for the differing part of each run of lines."""
        return [TextEdit(self.range(start, end), text) for start, end, text in _differences(self.text, after)]


def _differences(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    old, new = _LINE.findall(before), _LINE.findall(after)
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    tail = next((i for i in range(limit - head) if old[-1 - i] != new[-1 - i]), limit - head)
    at = sum(map(len, old[:head]))
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        was, becomes = "".join(old[a:b]), "".join(new[c:d])
        if tag != "equal":
            start, end = _common(was, becomes)
            yield at + start, at + len(was) - end, becomes[start : len(becomes) - end]
        at += len(was)


def _common(was: str, becomes: str) -> tuple[int, int]:
    """Return how many characters are equal at the start and at the end; line ends count as a whole."""
    limit = min(len(was), len(becomes))
    start = next((i for i in range(limit) if was[i] != becomes[i]), limit)
    start -= was[:start].endswith("\r")
    limit -= start
    end = next((i for i in range(limit) if was[-1 - i] != becomes[-1 - i]), limit)
    end -= was[len(was) - end :].startswith("\n")
    return start, max(0, end)
