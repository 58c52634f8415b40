"""Render a report as Markdown: for each rule why and where, then a checklist of what needs a person."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base.text import HIDDEN, counted, shorten
from torchmigrate.diagnostics.finding import FileResult, Finding, SourceLines
from torchmigrate.formats import diff
from torchmigrate.formats.model import Report, kind, name_of, place

if TYPE_CHECKING:
    from torchmigrate.rules.model import Rule


_LISTED = 20  # places named per rule
_MOST = 100  # places named in all, and as many items of the checklist
_NEW = 5  # helpers that are named
_SOURCE = 80  # characters of a source line
_SIZE = 60_000  # characters: GitHub limits the body of a pull request to 65,536
_HUNK = re.compile(rb"^(?=@@ |# \S.*:cell \d+ \()", re.M)
_HEADING = re.compile(rb"@@ [^@\n]* @@ ?([^\n]*)")
_SECTIONS = (
    ("fixable", "Can be rewritten"),
    ("unsafe", "Waits for --unsafe-fixes"),
    ("dropped", "Fixes not applied: they collide with others, or their guarded code must stay"),
)


def render(report: Report, base: Path, rules: Mapping[str, Rule]) -> str:
    """Return the whole text; places refer to the files as they stand after the run."""
    page = _Page(report, base, rules)
    rest = list(page.waiting())
    page.left = _MOST
    if checklist := list(page.checklist("yours")):
        rest += ["### Needs you", "\n".join(checklist)]
    if report.failed:
        failed = sorted((name_of(f.path, base), f.error) for f in report.failed)
        rest += ["### Errors", "\n".join(f"- {code(name)}: {plain(_on_one_line(error))}" for name, error in failed)]
    head = ["## torchmigrate", plain(report.summary())]
    page.room = _SIZE - sum(map(len, [*head, *rest])) - sum(len(page.why(r)) + 100 for r, _, _ in report.statistics())
    return "\n\n".join([*head, *page.rewritten(), *rest])


@dataclass
class _Page:
    report: Report
    base: Path
    rules: Mapping[str, Rule]
    left: int = _MOST  # places that may still be named
    room: int = _SIZE  # characters left for diffs
    _source_lines: SourceLines | None = None

    def rewritten(self) -> Iterator[str]:
        """Yield a section per rule with its count, why and diff; a hunk of several rules is shown under the first."""
        if self.report.command == "check" or not self.report.changed:
            return
        yield "### Rewritten" if self.report.written else "### Would be rewritten"
        hunks = self._hunks()
        for rule, done, _ in self.report.statistics():
            if done:
                diffs = list(self._render_hunks(hunks.pop(rule, []))) or [
                    "The diff stands under other rules of the same lines."
                ]
                yield folded(f"{rule}: {done:,}", "\n\n".join([self.why(rule), *diffs]))
        rest = [hunk for more in hunks.values() for hunk in more]
        if rest:
            yield folded("imports", "\n\n".join(self._render_hunks(rest)))
        new = [code(name_of(change.path, self.base)) for change in self.report.changed if change.new]
        if new:
            more = f" and {len(new) - _NEW:,} more" if len(new) > _NEW else ""
            yield f"New: {', '.join(new[:_NEW])}{more}, the helper that rewritten code calls."

    def _hunks(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for change in self.report.changed:
            if change.new:
                continue
            name = name_of(change.path, self.base)
            _, *hunks = _HUNK.split(b"\n" + diff.readable(change, name))
            for hunk in hunks:
                heading = _HEADING.search(hunk)
                rules = heading[1].decode().split(", ") if heading else [""]
                found.setdefault(rules[0].strip(), []).append(_name_hunk(hunk, name))
        return found

    def _render_hunks(self, hunks: Sequence[str]) -> Iterator[str]:
        shown = []
        for hunk in hunks:
            self.room -= len(hunk)
            if self.room < 0:
                break
            shown.append(hunk)
        if shown:
            yield fenced("\n".join(hunk.rstrip("\n") for hunk in shown), "diff")
        if more := len(hunks) - len(shown):
            yield f"and {counted(more, 'more hunk')}"

    def waiting(self) -> Iterator[str]:
        """Yield sections of what another run would rewrite, by rule: how often, why, and where."""
        for which, title in _SECTIONS:
            found = self._by_rule(which)
            if found:
                yield f"### {title}"
            for rule, entries in found.items():
                shown = self._take_places(entries)
                lines = [f"- {self._place(result, finding)}" for result, finding in shown]
                if more := len(entries) - len(lines):
                    lines.append(f"- and {more:,} more")
                yield folded(f"{rule}: {len(entries):,}", "\n\n".join([self.why(rule), "\n".join(lines)]))

    def checklist(self, which: str) -> Iterator[str]:
        """Yield a checklist: a heading for each message, an item for each place."""
        for rule, entries in self._by_rule(which).items():
            messages: dict[str, list[tuple[FileResult, Finding]]] = {}
            for result, finding in entries:
                messages.setdefault(finding.message, []).append((result, finding))
            for number, (message, alike) in enumerate(messages.items()):
                if not self.left:
                    yield f"- {len(messages) - number:,} more: {code(f'torchmigrate check --select {rule}')}"
                    break
                yield f"- {code(rule)}: {plain(_on_one_line(message))}"
                shown = self._take_places(alike)
                yield from (f"  - [ ] {self._place(result, finding)}" for result, finding in shown)
                if more := len(alike) - len(shown):
                    yield f"  - and {more:,} more: {code(f'torchmigrate check --select {rule}')}"

    def _take_places(self, entries: Sequence[tuple[FileResult, Finding]]) -> Sequence[tuple[FileResult, Finding]]:
        shown = entries[: min(_LISTED, self.left)]
        self.left -= len(shown)
        return shown

    def _by_rule(self, which: str) -> dict[str, list[tuple[FileResult, Finding]]]:
        found: dict[str, list[tuple[FileResult, Finding]]] = {}
        for result, finding in self.report.findings:
            if kind(finding) == which:
                found.setdefault(finding.rule, []).append((result, finding))
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def why(self, rule: str) -> str:
        """Return the rule's summary and reason."""
        known = self.rules.get(rule)
        return (
            plain(f"{_on_one_line(known.summary)}: {_on_one_line(known.why)}")
            if known
            else "a comment that is of no use"
        )

    def _place(self, result: FileResult, finding: Finding) -> str:
        where = code(place(name_of(result.path, self.base), finding))
        line = self._source(result).line(finding)
        return where + (f": {code(shorten(line.strip(), _SOURCE))}" if line and line.strip() else "")

    def _source(self, result: FileResult) -> SourceLines:
        if self._source_lines is None or self._source_lines.result is not result:
            self._source_lines = SourceLines(result, self.report.command == "check")
        return self._source_lines


def _on_one_line(text: str) -> str:
    return re.sub(HIDDEN, "\ufffd", " ".join(text.split()))


def _name_hunk(hunk: bytes, name: str) -> str:
    """Return a hunk under the file's name; a notebook's without comment marks, as no patch may take it."""
    text = hunk.decode("utf-8", "replace").replace("\r\n", "\n")
    if not text.startswith("# "):
        return f"# {name}\n{text}"
    head, _, rest = text.partition("\n")
    return "\n".join([head.rpartition(" (")[0], *(line.removeprefix("# ") for line in rest.split("\n"))])


def code(text: str) -> str:
    """Return a code span on one line."""
    text = re.sub(HIDDEN, "\ufffd", text.replace("\t", "\ufffd"))
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if "`" in text or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def cell(text: str) -> str:
    """Escape pipes, which end a table cell even in a code span."""
    return text.replace("|", "\\|")


def plain(text: str) -> str:
    """Escape Markdown, but not in code spans with balanced backticks: quoted text becomes no HTML or mention."""
    paired = "``" not in text and text.count("`") % 2 == 0
    parts = re.split(r"(`[^`]*`)", text) if paired else [text]
    return "".join(p if i % 2 else re.sub(r"([\\*_\[\]<>@#|&~`])", r"\\\1", p) for i, p in enumerate(parts))


def folded(title: str, body: str) -> str:
    """Return a section that opens on a click; the title is HTML, in which no Markdown is read."""
    return f"<details>\n<summary>{html.escape(title, quote=False)}</summary>\n\n{body}\n\n</details>"


def fenced(text: str, language: str = "") -> str:
    """Return a fenced code block whose fence is longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"
