"""Render findings as text for people: the place, the rule, the message, the line of source."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from torchmigrate.base.text import style, visible, visible_lines
from torchmigrate.diagnostics.finding import FileResult, Finding, SourceLines
from torchmigrate.formats.model import Report, kind, place
from torchmigrate.torch_api.backends import having

_ADVICE = {
    "fixable": ("fixable", "green"),
    "unsafe": ("unsafe fix (--unsafe-fixes)", "magenta"),
    "dropped": ("fix not applied: it collides with another, or its guarded code must stay", "magenta"),
    "yours": ("needs you", "red"),
}


@dataclass(frozen=True)
class _Paint:
    colour: bool

    def __call__(self, text: str, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
        return style(text, fg=fg, bold=bold, dim=dim) if self.colour else text


def lines(report: Report, colour: bool = False, width: int | None = None, every: bool = False) -> Iterator[str]:
    """Yield the findings with the source after the run; without a `width`, each message is one line.

    What a file repeats is shown once, with the lines where it is said again, unless `every` finding is asked for; after
    `apply`, so is what other files repeat.
    """
    paint = _Paint(colour)
    again = {} if every else _repeated(report)
    last: FileResult | None = None
    source: SourceLines | None = None
    for result, finding in report.to_do:
        more = again.get(id(finding), ())
        if more is None:
            continue
        if width is not None and (last or report.command == "dry-run"):  # after another finding, or a diff
            yield ""
        if source is None or result is not last:
            last, source = result, SourceLines(result, report.command == "check")
        yield from _head(report, result, finding, paint, width)
        yield from _body(finding, source.line(finding), paint, width)
        if more:
            pad = " " * (len(str(finding.line)) + 3)
            rows = textwrap.wrap(_elsewhere(report, result, more), (width or sys.maxsize) - len(pad) - 2)
            yield from (f"{pad}{' ' if number else paint('=', dim=True)} {row}" for number, row in enumerate(rows))
    if width is not None and last:  # before the summary
        yield ""


_LISTED = 8


_WIDEST = 500  # columns of a source line: it may be a file's only one, with thousands of findings
Found = tuple[FileResult, Finding]


def _repeated(report: Report) -> dict[int, list[Found] | None]:
    """Return the findings that say the same: those at other places for the first one, None for each after it."""
    first: dict[tuple[object, ...], list[Found]] = {}
    for result, finding in report.to_do:
        where = result.path if report.command == "check" else ""
        key = (where, finding.rule, _without_lines(finding.message), kind(finding), finding.backends)
        first.setdefault(key, []).append((result, finding))
    again: dict[int, list[Found] | None] = {}
    for same in first.values():
        again |= dict.fromkeys((id(finding) for _, finding in same[1:]), None)
        # two arguments of one call are one place
        places = {(result.path, f.cell, f.line, f.column): (result, f) for result, f in reversed(same)}
        again[id(same[0][1])] = [*reversed(places.values())][1:]
    return again


def _without_lines(message: str) -> str:
    """Return a message without the lines that it names as `(line 7)`, which are other ones at each place."""
    head, *parts = message.split(" (line ")
    tails = (part.partition(")") for part in parts)
    return head + "".join(tail if number.isdigit() else f" (line {number}){tail}" for number, _, tail in tails)


def _elsewhere(report: Report, result: FileResult, more: list[Found]) -> str:
    """Return where a finding is said again, as `and 3 more in this file: lines 7, 9, 12`, or `and 2 more: b.py:1`."""
    here = [f for r, f in more if r is result]
    others = [visible(place(report.name(r.path), f, column=False)) for r, f in more if r is not result]
    if others:
        places = [*(visible(place(report.name(result.path), f, column=False)) for f in here), *others]
        return f"and {len(more)} more: {_listed(places)}"
    return f"and {len(more)} more in this file: {_lines(here)}"


def _lines(findings: list[Finding]) -> str:
    """Return the first lines as `line 7` or `lines 7, 9`; in a notebook as `cell 5: lines 3, 4; cell 8: line 1`."""
    places = list(dict.fromkeys((f.cell, f.line) for f in findings))
    by_cell: dict[int | None, list[str]] = {}
    for cell, line in places[:_LISTED]:
        by_cell.setdefault(cell, []).append(str(line))
    parts = (
        f"{'' if cell is None else f'cell {cell}: '}line{'s' if lines[1:] else ''} {', '.join(lines)}"
        for cell, lines in by_cell.items()
    )
    return "; ".join(parts) + (", ..." if len(places) > _LISTED else "")


# a finding that names no backends concerns all of these; the report does not list them
_EVERYWHERE = frozenset(having("scored")) - {*having("cuda")}


def _listed(places: list[str]) -> str:
    each = list(dict.fromkeys(places))
    return ", ".join(each[:_LISTED]) + (", ..." if len(each) > _LISTED else "")


def _head(report: Report, result: FileResult, finding: Finding, paint: _Paint, width: int | None) -> Iterator[str]:
    """Yield the place, the rule, the message and the advice; wrapped on a terminal."""
    advice, fg = _ADVICE[kind(finding)]
    where, message = visible(place(report.name(result.path), finding)), visible(finding.message)
    painted = {where: paint(where, bold=True), finding.rule: paint(finding.rule, fg="magenta")}
    rows = [f"{where}: {finding.rule}: {message} [{advice}]"]
    if width is not None:
        end = f"[{advice}]" if len(advice) < width // 2 else ""
        # NUL keeps these parts from being broken at their spaces
        whole = [text.replace(" ", "\0") for text in (where, end)]
        text = f"{whole[0]}: {finding.rule}: {message} {whole[1] or f'[{advice}]'}"
        rows = textwrap.wrap(
            text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False, tabsize=1
        )
    for number, row in enumerate(rows):
        shown = row.replace("\0", " ")
        for plain, coloured in painted.items() if number < 2 else ():
            shown = shown.replace(f"{plain}:", f"{coloured}:", 1)
        head, bracket, end = shown.rpartition("[") if number == len(rows) - 1 else ("", "", "")
        yield f"{head}[{paint(end[:-1], fg=fg)}]" if bracket and end[:-1] == advice else shown


def _body(finding: Finding, line: str | None, paint: _Paint, width: int | None) -> Iterator[str]:
    """Yield the line of source, marks under the finding, and the backends that it concerns if not all."""
    number = str(finding.line)
    if line:
        begin = finding.column - 1
        end = finding.end_column - 1 if finding.end_line == finding.line else len(line)
        line, begin, end = _near(line, begin, end)
        parts = [visible_lines(part) for part in (line[:begin], line[begin:end], line[end:])]
        line, begin, end = "".join(parts), len(parts[0]), len(parts[0]) + len(parts[1])
        line, begin, end = _cut(line, begin, end, _WIDEST if width is None else width - len(number) - 5)
        yield f"  {paint(f'{number} |', dim=True)} {line}"
        pad = "".join("\t" if c == "\t" else " " * cells(c) for c in line[:begin])
        marks = paint("^" * max(1, cells(line[begin:end])), fg=_ADVICE[kind(finding)][1])
        yield f"  {' ' * len(number)} {paint('|', dim=True)} {pad}{marks}"
    if finding.backends and not {*finding.backends} >= _EVERYWHERE:
        yield f"  {' ' * len(number)} {paint('=', dim=True)} matters on: {', '.join(finding.backends)}"


def cells(text: str) -> int:
    """Return the columns of a terminal that a text takes: Chinese characters take two, combining accents none."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _near(line: str, begin: int, end: int) -> tuple[str, int, int]:
    """Return the part of a very long line around a finding, more than is shown, with the finding's positions in it."""
    start = max(0, begin - 2 * _WIDEST)
    return line[start : begin + 4 * _WIDEST], begin - start, min(end, begin + 3 * _WIDEST) - start


def _cut(line: str, begin: int, end: int, room: int | None) -> tuple[str, int, int]:
    """Cut a long line to the room around the finding; return it with the finding's new positions."""
    if room is None or len(line.expandtabs()) <= room:
        return line, begin, end
    room = max(room, 20)
    line = line.replace("\t", " ")
    first = 0 if end <= room - 3 else max(0, min(begin - 7, len(line) - room + 3))
    left, right = "..." if first else "", "..." if first + room - 3 < len(line) else ""
    shown = line[first + len(left) : first + room - len(right)]
    begin = begin - first
    return f"{left}{shown}{right}", begin, min(end - first, len(left) + len(shown))


def statistics(report: Report, colour: bool = False) -> Iterator[str]:
    """Yield a row per rule."""
    rows = report.statistics()
    width = max([len("rule"), *(len(rule) for rule, _, _ in rows)])
    done = "found" if report.command == "check" else "left"
    middle = "" if report.command == "check" else f"{'rewritten' if report.written else 'rewrite':>10}"
    yield _Paint(colour)(f"{'rule':<{width}}{middle}{done:>8}", bold=True) if rows else "no findings"
    for rule, rewritten, left in rows:
        yield f"{rule:<{width}}{'' if report.command == 'check' else f'{rewritten:>10}'}{left:>8}"


MARKS = {"fixable": " [fixable]", "unsafe": " [unsafe fix]", "dropped": " [fix not applied]", "yours": ""}


def concise_lines(report: Report) -> Iterator[str]:
    for result, finding in report.findings:
        where = visible(place(report.name(result.path), finding))
        yield f"{where}: {finding.rule}: {visible(finding.message)}{MARKS[kind(finding)]}"
