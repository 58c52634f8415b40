"""Find the places in one text file that a text rule reports."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.globs import Names
from torchmigrate.diagnostics.finding import Finding, Safety, Status
from torchmigrate.diagnostics.suppressions import Suppressions
from torchmigrate.rules.model import Rule, TextPattern, Where
from torchmigrate.source.text_file import LONGEST, Line, TextFile, decode
from torchmigrate.torch_api.libraries import VARIABLES, of_library

_LISTED = 5
ALSO = " (also on line"  # how the end of a message begins that names the other lines
LARGEST = 1_000_000  # bytes to read of another file in the directory

Occurrence = tuple[int, int, "re.Match[str] | None"]  # start and end in characters


@cache
def _regex(text: str) -> re.Pattern[str]:
    return re.compile(text)


@cache
def _globs(globs: tuple[str, ...]) -> Names:
    return Names(globs)


@cache
def _any_literal(literals: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, literals)))


def findings_of_rule(rule: Rule, path: str, file: TextFile, hidden: Suppressions) -> list[Finding]:
    """Return the findings of one rule in a file; `path` is slash-separated."""
    lines = _lines_to_check(rule, path, file)
    found: list[Finding] = []
    for pattern in rule.patterns:
        if pattern.files and not _globs(pattern.files).match(path):
            continue
        choice = pattern.alternative and _regex(pattern.alternative)
        if choice and choice.search(file.code):
            continue
        own = list(_findings_of_pattern(rule, pattern, file, hidden, lines))
        if not (
            own and choice and pattern.siblings and any(choice.search(code) for code in _sibling_texts(rule, path))
        ):
            found += own
    others = tuple({glob for where in _matching_wheres(rule, path) for glob in where.beside})
    return [] if found and others and any(map(_globs(others).match, _siblings(path))) else found


def _siblings(path: str) -> list[str]:
    return sorted(other.as_posix() for other in Path(path).parent.glob("*") if other.as_posix() != path)


def _sibling_texts(rule: Rule, path: str) -> Iterator[str]:
    """Yield the text, without comments, of the other files in the directory that the rule reads."""
    for other in map(Path, _siblings(path)):
        if _globs(tuple(rule.globs())).match(other.as_posix()) and other.is_file():
            yield TextFile(other.name, decode(file_io.head(other, LARGEST)) or "").code


def _matching_wheres(rule: Rule, path: str) -> list[Where]:
    return [w for w in rule.where if _globs(w.files).match(path) and not _globs(w.but).match(path)]


def _lines_to_check(rule: Rule, path: str, file: TextFile) -> list[Line]:
    wheres = _matching_wheres(rule, path)
    lines = [line for line in file.lines if len(line.text) <= LONGEST]
    if rule.literals:
        worth = _any_literal(rule.literals)
        lines = [line for line in lines if worth.search(line.text)]
    return [line for line in lines if any(_is_checked(line, where, file) for where in wheres)]


def _is_checked(line: Line, where: Where, file: TextFile) -> bool:
    if where.under and not _regex(where.under).search(file.tables.get(line.start, "")):
        return False
    if where.unless and _regex(where.unless).search(line.text):
        return False
    return not where.line or _regex(where.line).search(line.text) is not None


def _findings_of_pattern(
    rule: Rule, pattern: TextPattern, file: TextFile, hidden: Suppressions, lines: Sequence[Line]
) -> Iterator[Finding]:
    """Yield one finding for all lines with the same replacement, and one for each suppressed line."""
    alike: dict[str, list[Finding]] = {}
    for start, end, match in _occurrences(pattern, file, lines):
        groups = (match.groupdict("") if match else {}) | {"match": file.text[start:end]}
        instead = _replacement(groups)
        if instead is None:
            continue
        message = pattern.message.format(**groups, instead=instead)
        finding = _make_finding(rule, file, start, end, message)
        if hidden.status(rule.id, finding.line):
            yield finding.with_status(Status.SUPPRESSED)
        else:
            alike.setdefault(instead, []).append(finding)
    for first, *more in alike.values():
        others = list(dict.fromkeys(f.line for f in more if f.line != first.line))
        yield replace(first, message=first.message + _also_on_lines(others)) if others else first


def _occurrences(pattern: TextPattern, file: TextFile, lines: Sequence[Line]) -> Iterator[Occurrence]:
    if pattern.match is None:
        start = file.lines[0].start if file.lines else 0
        yield start, start, None
        return
    for line in lines:
        if not pattern.unless or not _regex(pattern.unless).search(line.text):
            for match in _regex(pattern.match).finditer(line.text):
                start, end = match.span("at" if "at" in match.re.groupindex else 0)
                yield line.start + start, line.start + end, match


def _replacement(groups: Mapping[str, str]) -> str | None:
    """Return what replaces the captured `library` or `variable`: "" without a capture, None if it is unknown."""
    if name := groups.get("library"):
        return of_library(name)
    return VARIABLES.get(name) if (name := groups.get("variable")) else ""


def _make_finding(rule: Rule, file: TextFile, start: int, end: int, message: str) -> Finding:
    (line, column), (end_line, end_column) = file.position(start), file.position(end)
    offsets = len(file.text[:start].encode()), len(file.text[:end].encode())
    see = rule.see[0] if rule.see else ""
    found = Finding(rule.id, Safety.DISPLAY, *offsets, message, rule.backends, see=see)
    return replace(found, line=line, column=column, end_line=end_line, end_column=end_column)


def _also_on_lines(lines: Sequence[int]) -> str:
    """Return the end of a message that names the other lines."""
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{ALSO} {lines[0]})"
    shown = [str(line) for line in lines[:_LISTED]]
    rest = len(lines) - len(shown)
    last = f"{rest} more" if rest else shown.pop()
    return f"{ALSO}s {', '.join(shown)} and {last})"


def unused_suppressions(
    file: TextFile, hidden: Suppressions, known: Collection[str], active: Collection[str]
) -> Iterator[Finding]:
    """Yield a finding for each suppression that names no rule or suppresses nothing."""
    texts = file.text.split("\n")
    for number, name, why in hidden.unused(known, active):
        what = f"`ignore[{name}]`: {why}" if name else why
        width = len(texts[number - 1].rstrip()) if number <= len(texts) else 0
        start = sum(len(text) + 1 for text in texts[: number - 1])
        offsets = len(file.text[:start].encode()), len(file.text[: start + width].encode())
        found = Finding("suppression", Safety.DISPLAY, *offsets, what, line=number, column=1)
        yield replace(found, end_line=number, end_column=width + 1)
