"""Rules about files that are not Python: which of them they read. What they find there: text_findings.py."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.base import file_io, limits
from torchmigrate.base.globs import Names
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Failed, FileResult, Finding, Skipped, Unchanged
from torchmigrate.project.discovery import DiscoveredFile
from torchmigrate.rules.model import Rule, Ruleset
from torchmigrate.source.encoding import UTF16
from torchmigrate.source.notebook import Cell, Notebook

LIMIT = 1_000_000  # bytes: what is larger is data
_SECONDS = 10.0  # of processor time: a user's regular expression may take for ever
_SKIP_FILE = "# torchmigrate: skip-file"


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule and what tells quickly whether it has work in a file."""

    rule: Rule
    names: Names
    literals: tuple[bytes, ...]

    def has_work(self, path: str, raw: bytes) -> bool:
        if not self.names.match(path):
            return False
        return not self.literals or raw.startswith(UTF16) or any(literal in raw for literal in self.literals)


@dataclass(frozen=True)
class TextRules:
    """Those of a run; `known` and `active` name rules and packs as suppressions do."""

    rules: Sequence[TextRule]
    known: Collection[str]
    active: Collection[str]
    wanted: Names  # by the rules of this run
    readable: Names  # by all rules: what such a file is, whatever the run selects

    def concerns_notebook(self, path: str, raw: bytes) -> bool:
        """Whether one may hold shell lines that a rule has something to say of."""
        return b"install" in raw and any(rule.has_work(path, raw) for rule in self.rules)

    def read(
        self, found: Iterable[DiscoveredFile], settings: Settings, texts: Mapping[str, bytes] | None = None
    ) -> tuple[list[FileResult], frozenset[str]]:
        """Results of files that have something to say, and the paths of all that were read. What is no text or too
        large is none of ours, unless it was named. `texts` stand in for what is on disk."""
        results: list[FileResult] = []
        seen: set[str] = set()
        for item in found:
            result = self._one(item, settings, (texts or {}).get(str(item.path)))
            if isinstance(result, (Skipped, Failed)):
                if item.named or isinstance(result, Failed) or result.reason == _SKIP_FILE:
                    results.append(result)
                continue
            seen.add(str(item.path))
            results += [result] if result else []
        return results, frozenset(seen)

    def _one(self, item: DiscoveredFile, settings: Settings, text: bytes | None) -> Unchanged | Skipped | Failed | None:
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
        """Findings of one file; None where there are none. `ignored` are names of rules and packs."""
        name = path.as_posix()
        rules = [r.rule for r in self.rules if r.has_work(name, raw) and not {r.rule.id, r.rule.pack} & {*ignored}]
        if not rules and suppressions.MARK not in raw:
            return None
        from torchmigrate.source import text_file
        from torchmigrate.textcheck import matcher  # most projects have no such file

        text = text_file.decode(raw)
        if text is None:
            return Skipped(path, "not a text file")
        file = text_file.TextFile(path.name, text)
        hidden = suppressions.find_in_text(file)
        if hidden.skip_file:
            return Skipped(path, _SKIP_FILE)
        found = [f for rule in rules for f in matcher.of_rule(rule, name, file, hidden)]
        found += matcher.idle(file, hidden, self.known, {*self.active} - {*ignored})
        return Unchanged(path, tuple(sorted(found, key=lambda f: (f.start, f.end, f.rule)))) if found else None


def _first_bytes(path: Path) -> bytes:
    return file_io.read(path, LIMIT + 1)


NONE = TextRules((), (), (), Names(()), Names(()))


def text_rules(ruleset: Ruleset) -> TextRules:
    """Those of the rules that are selected."""
    rules = [r for r in ruleset.rules.values() if r.patterns]
    active = {name for r in ruleset.rules.values() for name in (r.id, r.pack)}
    wanted = {glob for rule in rules for glob in rule.globs()}
    prepared = [TextRule(r, Names(r.globs()), tuple(text.encode() for text in r.literals)) for r in rules]
    return TextRules(prepared, active | ruleset.names, active, Names(wanted), Names(wanted | ruleset.globs))


_SHELL = re.compile(r"%%(?:bash|sh|shell|system|sx|!|script +(?:ba|z)?sh)\b|%%!")
_COMMENT = "suppression"


def added(findings: Sequence[Finding], book: Notebook, texts: TextRules, path: Path) -> Iterator[Finding]:
    """With what is found on shell lines. A comment is idle where neither Python nor the shell has a use for it."""
    cells = {cell.number: (cell.start, _shell_lines(cell)) for cell in book.cells if cell.masked}
    cells |= {c.number: (0, _below(c.text)) for c in book.unread if c.magic and _SHELL.match(c.magic)}
    found = [f for number, (start, text) in cells.items() for f in _in_cell(number, start, text, texts, path)]
    idle = {(f.cell, f.line) for f in found if f.rule == _COMMENT}
    mine = {(f.cell, f.line) for f in findings if f.rule == _COMMENT}
    for finding in findings:
        if finding.rule != _COMMENT or finding.cell not in cells or (finding.cell, finding.line) in idle:
            yield finding
    yield from (f for f in found if f.rule != _COMMENT or ((f.cell, f.line) not in mine and not _is_python(f, cells)))


def _in_cell(number: int, start: int, text: bytes, texts: TextRules, path: Path) -> Iterator[Finding]:
    found = texts.inspect(path, text)
    for finding in found.findings if isinstance(found, Unchanged) else ():
        yield replace(finding, cell=number, start=finding.start + start, end=finding.end + start)


def _is_python(finding: Finding, cells: dict[int, tuple[int, bytes]]) -> bool:
    """Whether a comment stands on a line of its own, where it is Python's as well."""
    assert finding.cell is not None
    return cells[finding.cell][1].split(b"\n")[finding.line - 1].lstrip().startswith(b"#")


def _shell_lines(cell: Cell) -> bytes:
    """A cell's lines that are IPython's, and comments; something in place of Python's."""
    lines: list[bytes] = []
    at = cell.start
    for line in cell.text.encode().split(b"\n"):
        is_magic = any(start <= at + len(line) and at < end for start, end in cell.masked)
        keeps = is_magic or not line.strip() or line.lstrip().startswith(b"#")
        lines.append(line if keeps else b"0".ljust(len(line)))
        at += len(line) + 1
    return b"\n".join(lines)


def _below(text: str) -> bytes:
    """Without the `%%` line."""
    first, end, rest = text.encode().partition(b"\n")
    return b" " * len(first) + end + rest
