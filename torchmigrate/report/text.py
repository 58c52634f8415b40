"""Findings for people: the rule, the place, the line of source, what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from typer import style

from torchmigrate.edits import Changed, FileResult, Finding, Unchanged
from torchmigrate.report import Report, kind, place

_ADVICE = {
    "fixable": ("fixable", "green"),
    "unsafe": ("unsafe fix (--unsafe-fixes)", "yellow"),
    "dropped": ("fix dropped: it collides with another, or its guarded code must stay", "yellow"),
    "yours": ("needs you", "red"),
}


@dataclass(frozen=True)
class _Paint:
    colour: bool

    def __call__(self, text: str, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
        return style(text, fg=fg, bold=bold or None, dim=dim or None) if self.colour else text


def lines(report: Report, colour: bool = False) -> Iterator[str]:
    """Findings, file by file. The source shown is the file as it stands after the run."""
    paint = _Paint(colour)
    last: FileResult | None = None
    source: SourceLines | None = None
    for result, finding in report.findings:
        if source is None or result is not last:
            last, source = result, SourceLines(result, report.command == "check")
        yield from _finding(report, result, finding, source.line(finding), paint)


def _finding(report: Report, result: FileResult, finding: Finding, line: str | None, paint: _Paint) -> Iterator[str]:
    advice, fg = _ADVICE[kind(finding)]
    where = paint(place(report.name(result.path), finding), bold=True)
    yield f"{where}: {paint(finding.rule, fg='cyan')}: {finding.message} [{paint(advice, fg=fg)}]"
    number = str(finding.line)
    if line is not None:
        yield f"  {paint(f'{number} |', dim=True)} {line}"
        begin = finding.column - 1
        end = finding.end_column - 1 if finding.end_line == finding.line else len(line)
        pad = "".join("\t" if c == "\t" else " " for c in line[:begin])
        yield f"  {' ' * len(number)} {paint('|', dim=True)} {pad}{paint('^' * max(1, end - begin), fg=fg)}"
    if finding.backends:
        yield f"  {' ' * len(number)} {paint('=', dim=True)} matters on: {', '.join(finding.backends)}"


def statistics(report: Report) -> Iterator[str]:
    """A row per rule."""
    rows = report.statistics()
    width = max([len("rule"), *(len(rule) for rule, _, _ in rows)])
    done = "found" if report.command == "check" else "left"
    middle = "" if report.command == "check" else f"{'rewritten' if report.written else 'rewrite':>10}"
    yield f"{'rule':<{width}}{middle}{done:>8}" if rows else "no findings"
    for rule, rewritten, left in rows:
        yield f"{rule:<{width}}{'' if report.command == 'check' else f'{rewritten:>10}'}{left:>8}"


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
            return self.result.path.read_bytes()
        except OSError:
            return b""

    @cached_property
    def _module(self) -> list[str]:
        from torchmigrate import source

        try:
            return split_lines(source.decode(self._raw).text)
        except source.UnreadableSource:
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
