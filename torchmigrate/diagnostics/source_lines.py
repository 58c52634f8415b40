"""Source lines, to show them beside a finding."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from torchmigrate.base import file_io
from torchmigrate.diagnostics.finding import Changed, FileResult, Finding, Unchanged


@dataclass(frozen=True)
class SourceLines:
    """The source lines of one result: positions are in `after`, or in the file where nothing was rewritten."""

    result: FileResult
    before: bool

    @cached_property
    def _raw(self) -> bytes:
        if isinstance(self.result, Changed):
            return self.result.before if self.before else self.result.after
        if isinstance(self.result, Unchanged) and self.result.text is not None:
            return self.result.text
        try:
            return file_io.read(self.result.path)
        except OSError:
            return b""

    @cached_property
    def _module(self) -> list[str]:
        from torchmigrate.source import encoding

        try:
            return split_lines(encoding.decode(self._raw).text)
        except encoding.UnreadableSource:
            return []

    @cached_property
    def _cells(self) -> list[list[str]]:
        try:
            return [split_lines("".join(cell["source"])) for cell in json.loads(self._raw)["cells"]]
        except (ValueError, KeyError, TypeError):
            return []

    def line(self, finding: Finding) -> str | None:
        return next((line for number, line in self.around(finding, 0) if number == finding.line), None)

    def around(self, finding: Finding, more: int) -> list[tuple[int, str]]:
        """The line of a finding and so many on each side, of the same cell, with their numbers."""
        if finding.cell is None:
            found = self._module
        else:
            found = self._cells[finding.cell - 1] if finding.cell <= len(self._cells) else []
        near = range(max(1, finding.line - more), min(len(found), finding.line + more) + 1)
        return [(number, found[number - 1].rstrip()) for number in near]

    def own(self, finding: Finding) -> list[str]:
        """All lines of a finding."""
        more = max(finding.line, finding.end_line) - finding.line
        return [line for number, line in self.around(finding, more) if number >= finding.line]


def split_lines(text: str) -> list[str]:
    """As Python counts them: form feeds end none."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
