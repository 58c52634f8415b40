"""Run text rules: which files that are not Python they read, shell lines in notebooks, and the places they report."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base import file_io, limits, system
from torchmigrate.base.globs import Names
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import SUPPRESSES, Failed, FileResult, Finding, Safety, Skipped, Status, Unchanged
from torchmigrate.project.discovery import DiscoveredFile
from torchmigrate.rules.model import Rule, Ruleset, TextPattern, Where
from torchmigrate.source.encoding import UTF16

if TYPE_CHECKING:
    from torchmigrate.diagnostics.suppressions import Suppressions
    from torchmigrate.source.notebook import Cell, Notebook
    from torchmigrate.source.text_file import Line, TextFile


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
    from torchmigrate.source import text_file

    for other in map(Path, _siblings(path)):
        if _globs(tuple(rule.globs())).match(other.as_posix()) and other.is_file():
            yield text_file.TextFile(other.name, text_file.decode(file_io.head(other, LARGEST)) or "").code


def _matching_wheres(rule: Rule, path: str) -> list[Where]:
    return [w for w in rule.where if _globs(w.files).match(path) and not _globs(w.but).match(path)]


def _lines_to_check(rule: Rule, path: str, file: TextFile) -> list[Line]:
    from torchmigrate.source import text_file  # a run over Python files alone needs none of it

    wheres = _matching_wheres(rule, path)
    lines = [line for line in file.lines if len(line.text) <= text_file.LONGEST]
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
    from torchmigrate.torch_api.libraries import VARIABLES, of_library  # read from TOML, which clean files do not need

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


LIMIT = 1_000_000  # bytes of a file: a larger one is data
MOST_FILES = 3  # with the same finding, each of which tells of it
_SECONDS = 10.0  # of processor time per file: a user's regular expression may never end
_SKIP_FILE = "# torchmigrate: skip-file"


@dataclass(frozen=True, slots=True)
class TextRule:
    """A text rule with its prefilter."""

    rule: Rule
    names: Names
    literals: tuple[bytes, ...]

    def has_work(self, path: str, raw: bytes) -> bool:
        """Return whether the rule may have findings in a file, by its name and the prefilter literals."""
        if not self.names.match(path):
            return False
        return not self.literals or raw.startswith(UTF16) or any(literal in raw for literal in self.literals)


@dataclass(frozen=True)
class TextRules:
    """The text rules of a run; `known` and `active` are rules and packs: all that exist, and this run's."""

    rules: Sequence[TextRule]
    known: Collection[str]
    active: Collection[str]
    wanted: Names  # files that the rules of this run read
    readable: Names  # files that some rule reads, selected or not

    def concerns_notebook(self, path: str, raw: bytes) -> bool:
        """Return whether a notebook may contain shell lines on which a rule has findings."""
        return b"install" in raw and any(rule.has_work(path, raw) for rule in self.rules)

    def read(
        self, found: Iterable[DiscoveredFile], settings: Settings, texts: Mapping[str, bytes] | None = None
    ) -> tuple[list[FileResult], frozenset[str]]:
        """Return the results of files with something to report, and the paths of all files that were read.

        Binary and large files are ignored silently unless the user named them. `texts` is the overlay: contents by
        path.
        """
        results: list[FileResult] = []
        seen: set[str] = set()
        for item in found:
            result = self._result(item, settings, (texts or {}).get(str(item.path)))
            if isinstance(result, (Skipped, Failed)):
                if item.named or isinstance(result, Failed) or result.reason == _SKIP_FILE:
                    results.append(result)
                continue
            seen.add(str(item.path))
            results += [result] if result else []
        return _told_once(results, settings), frozenset(seen)

    def _result(
        self, item: DiscoveredFile, settings: Settings, text: bytes | None
    ) -> Unchanged | Skipped | Failed | None:
        """Return the result of one file, or None if it has no findings; `text` is its overlay."""
        try:
            raw = _first_bytes(item.path) if text is None else text
        except OSError as error:
            return Failed(item.path, f"cannot be read: {error.strerror or error}")
        if len(raw) > LIMIT:
            return Skipped(item.path, f"larger than {LIMIT:,} bytes")
        try:
            with limits.bounded(_SECONDS):
                return self.inspect(item.path, raw, settings.ignored_in(item.path))
        except limits.TooSlow:
            return Failed(item.path, "a rule's regular expression takes too long here; it should repeat less")

    def inspect(self, path: Path, raw: bytes, ignored: Collection[str] = ()) -> Unchanged | Skipped | None:
        """Return one file's findings, or None without any; `ignored` are rules and packs switched off for it."""
        name = path.as_posix()
        rules = [r.rule for r in self.rules if r.has_work(name, raw) and not {r.rule.id, r.rule.pack} & {*ignored}]
        if not rules and SUPPRESSES not in raw:
            return None
        from torchmigrate.diagnostics import suppressions  # most projects have no such file
        from torchmigrate.source import text_file

        text = text_file.decode(raw)
        if text is None:
            return Skipped(path, "not a text file")
        file = text_file.TextFile(path.name, text)
        hidden = suppressions.find_in_text(file)
        if hidden.skip_file:
            return Skipped(path, _SKIP_FILE)
        found = [f for rule in rules for f in findings_of_rule(rule, name, file, hidden)]
        found += unused_suppressions(file, hidden, self.known, {*self.active} - {*ignored})
        return Unchanged(path, tuple(sorted(found, key=lambda f: (f.start, f.end, f.rule)))) if found else None


def _told_once(results: list[FileResult], settings: Settings) -> list[FileResult]:
    """Leave a finding that many files share open in the first of them alone."""
    places: dict[tuple[str, str], dict[Path, None]] = {}
    for result in results:
        for finding in result.findings if isinstance(result, Unchanged) else ():
            if finding.status is Status.OPEN:
                places.setdefault(_kind(finding), {})[result.path] = None
    shared = {kind: [*files] for kind, files in places.items() if len(files) > MOST_FILES}

    def told(path: Path, finding: Finding) -> Finding:
        files = shared.get(_kind(finding), ()) if finding.status is Status.OPEN else ()
        if not files:
            return finding
        if path == files[0]:
            return replace(finding, message=f"{finding.message} (also in {len(files) - 1} more files, -v)")
        first = system.relative(files[0], settings.root)
        message = f"the same as there (left alone: told of in {first})"
        return replace(finding, status=Status.LEFT, message=message)

    return [
        replace(r, findings=tuple(told(r.path, f) for f in r.findings)) if isinstance(r, Unchanged) else r
        for r in results
    ]


def _kind(finding: Finding) -> tuple[str, str]:
    """Return what the same finding in another file has in common with this one: the rule, and the words."""
    return finding.rule, finding.message.partition(ALSO)[0]


def _first_bytes(path: Path) -> bytes:
    return file_io.head(path, LIMIT + 1)


NONE = TextRules((), (), (), Names(()), Names(()))


@lru_cache(maxsize=8)
def text_rules(ruleset: Ruleset) -> TextRules:
    """Return the text rules of a rule set."""
    rules = [r for r in ruleset.rules.values() if r.patterns]
    active = {name for r in ruleset.rules.values() for name in (r.id, r.pack)}
    wanted = {glob for rule in rules for glob in rule.globs()}
    prepared = [TextRule(r, Names(r.globs()), tuple(text.encode() for text in r.literals)) for r in rules]
    return TextRules(prepared, active | ruleset.names, active, Names(wanted), Names(wanted | ruleset.globs))


_SHELL = r"%%(?:bash|sh|shell|system|sx|!|script +(?:ba|z)?sh)\b|%%!"
_COMMENT = "suppression"


def with_shell_findings(findings: Sequence[Finding], book: Notebook, texts: TextRules, path: Path) -> Iterator[Finding]:
    """Yield a notebook's findings and its shell lines'; a suppression is unused only if neither uses it."""
    cells = {cell.number: (cell.start, _shell_lines(cell)) for cell in book.cells if cell.masked}
    cells |= {c.number: (0, _blank_first_line(c.text)) for c in book.unread if c.magic and re.match(_SHELL, c.magic)}
    found = [f for number, (start, text) in cells.items() for f in _findings_in_cell(number, start, text, texts, path)]
    idle = {(f.cell, f.line) for f in found if f.rule == _COMMENT}
    mine = {(f.cell, f.line) for f in findings if f.rule == _COMMENT}
    for finding in findings:
        if finding.rule != _COMMENT or finding.cell not in cells or (finding.cell, finding.line) in idle:
            yield finding
    yield from (f for f in found if f.rule != _COMMENT or ((f.cell, f.line) not in mine and not _is_python(f, cells)))


def _findings_in_cell(number: int, start: int, text: bytes, texts: TextRules, path: Path) -> Iterator[Finding]:
    found = texts.inspect(path, text)
    for finding in found.findings if isinstance(found, Unchanged) else ():
        yield replace(finding, cell=number, start=finding.start + start, end=finding.end + start)


def _is_python(finding: Finding, cells: dict[int, tuple[int, bytes]]) -> bool:
    """Return whether a suppression stands on a line of its own, where it is a comment of Python as well."""
    assert finding.cell is not None
    return cells[finding.cell][1].split(b"\n")[finding.line - 1].lstrip().startswith(b"#")


def _shell_lines(cell: Cell) -> bytes:
    """Return the text of a cell in which lines of Python are blanked; magics and comments stay."""
    lines: list[bytes] = []
    at = cell.start
    for line in cell.text.encode().split(b"\n"):
        is_magic = any(start <= at + len(line) and at < end for start, end in cell.masked)
        keeps = is_magic or not line.strip() or line.lstrip().startswith(b"#")
        lines.append(line if keeps else b"0".ljust(len(line)))
        at += len(line) + 1
    return b"\n".join(lines)


def _blank_first_line(text: str) -> bytes:
    """Return the text of a cell with its `%%` line blanked."""
    first, end, rest = text.encode().partition(b"\n")
    return b" " * len(first) + end + rest
