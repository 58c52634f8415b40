"""The report of a run: findings by file, counts, exit code, summary. Other modules only lay it out.

Other programs get positions of their own kind: git's file names, lines, columns in UTF-16 units, fingerprints.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.text import counted, visible
from torchmigrate.diagnostics.finding import (
    Changed,
    Failed,
    FileResult,
    Finding,
    Safety,
    Skipped,
    Status,
    Unchanged,
    failures,
    split_lines,
)
from torchmigrate.source.encoding import UnreadableSource, decode


@dataclass(frozen=True)
class Report:
    """The results of `command`: "check", "apply" or "dry-run".

    `files_seen` counts Python files, `others` are paths of others that were read; paths are shown relative to `here`.
    `backends` says whose problems are reported; empty means all.
    """

    results: Sequence[FileResult]
    files_seen: int
    command: str
    here: Path
    backends: Sequence[str] = ()
    others: frozenset[str] = frozenset()
    order: Sequence[str] = ()  # the files that the project's first program reads, from near to far

    @property
    def written(self) -> bool:
        return self.command == "apply"

    def name(self, path: Path) -> str:
        """Return a path relative to `here` if it lies below, with slashes."""
        try:
            return path.relative_to(self.here).as_posix()
        except ValueError:
            return path.as_posix()

    @cached_property
    def changed(self) -> list[Changed]:
        return [r for r in self.results if isinstance(r, Changed)]

    @cached_property
    def failed(self) -> list[Failed]:
        """Files that could not be read, or not completely."""
        return list(failures(self.results))

    @cached_property
    def skipped(self) -> list[Skipped]:
        return [r for r in self.results if isinstance(r, Skipped)]

    @property
    def read(self) -> int:
        """The number of Python files that were read completely, without skipped and failed ones."""
        not_read = sum(isinstance(result, (Skipped, Failed)) for result in self.results)
        return max(0, self.files_seen - not_read)

    @cached_property
    def applied(self) -> list[Finding]:
        return [finding for result in self.changed for finding in result.applied]

    @cached_property
    def findings(self) -> list[tuple[FileResult, Finding]]:
        """The open findings, file by file: all for `check`, those not rewritten for `apply`."""
        found: list[tuple[FileResult, Finding]] = []
        for result in self.results:
            if isinstance(result, (Changed, Unchanged)):
                would_be = result.applied if isinstance(result, Changed) and self.command == "check" else ()
                mine = sorted((*would_be, *result.findings), key=lambda f: (f.cell or 0, f.line, f.column, f.rule))
                found += [(result, f) for f in mine if f.status not in _SETTLED and self._concerns(f)]
        return found

    @cached_property
    def to_do(self) -> list[tuple[FileResult, Finding]]:
        """The open findings as a person reads them: for `check` by file, after `apply` what stops a program first.

        What the first program reads goes before other Python files, and these before Dockerfiles and the like; then
        what matters on more backends.
        """
        if self.command == "check":
            return self.findings
        place = {path: number for number, path in enumerate(self.order)}

        def rank(found: tuple[FileResult, Finding]) -> tuple[int, int, int]:
            path = str(found[0].path)
            tier = 0 if path in place else 2 if path in self.others else 1
            return tier, -len(found[1].backends), place.get(path, 0)

        return sorted(self.findings, key=rank)

    def of(self, result: FileResult) -> list[Finding]:
        """Return all findings of one file that concern the backends and were not rewritten, also settled ones."""
        found = result.findings if isinstance(result, (Changed, Unchanged)) else ()
        return [finding for finding in found if self._concerns(finding)]

    def _concerns(self, finding: Finding) -> bool:
        return not self.backends or not finding.backends or not set(self.backends).isdisjoint(finding.backends)

    @cached_property
    def suppressed(self) -> int:
        return self._count(Status.SUPPRESSED)

    @cached_property
    def known(self) -> int:
        """The number of findings that are in the baseline."""
        return self._count(Status.KNOWN)

    def _count(self, status: Status) -> int:
        kept = (r for r in self.results if isinstance(r, (Changed, Unchanged)))
        return sum(f.status is status for r in kept for f in r.findings)

    @cached_property
    def left(self) -> list[tuple[FileResult, Finding]]:
        """Places that were left alone because they are right as they are; they are no findings."""
        kept = (r for r in self.results if isinstance(r, (Changed, Unchanged)))
        return [(r, f) for r in kept for f in r.findings if f.status is Status.LEFT]

    def kinds(self) -> Counter[str]:
        """Count the findings by kind: fixable, unsafe (held back), dropped, yours."""
        return Counter(kind(finding) for _, finding in self.findings)

    def exit_code(self, exit_zero: bool = False) -> int:
        """Return the exit status that the command line promises.

        2 if a file could not be read. Else 1 if there is something left: findings for `check`, changes for a dry run,
        findings with a fix for `apply`.
        """
        if self.failed:
            return 2
        if exit_zero:
            return 0
        if self.command == "dry-run":
            return int(bool(self.changed))
        if self.command == "check":
            return int(bool(self.findings))
        return int(any(kind(finding) != "yours" for _, finding in self.findings))

    def statistics(self) -> list[tuple[str, int, int]]:
        """Return (rule, rewritten, left), the most frequent rule first."""
        done = Counter(f.rule for f in self.applied if self.command != "check")
        left = Counter(f.rule for _, f in self.findings)
        order = sorted({*done, *left}, key=lambda rule: (-done[rule] - left[rule], rule))
        return [(rule, done[rule], left[rule]) for rule in order]

    def summary(self) -> str:
        """Return the summary, the last line on stderr."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        counts = self.kinds()
        if self.command == "check":
            yield self._describe_findings()
        else:
            yield self._describe_rewrites()
        left = []
        if counts["fixable"]:
            left.append(f"{counted(counts['fixable'], 'fix', 'fixes')} available (torchmigrate apply)")
        if counts["unsafe"]:
            left.append(f"{counted(counts['unsafe'], 'unsafe fix', 'unsafe fixes')} available (--unsafe-fixes)")
        if counts["dropped"]:
            left.append(f"{counted(counts['dropped'], 'fix', 'fixes')} not applied")
        if counts["yours"]:
            left.append(f"{counts['yours']} need{'s' if counts['yours'] == 1 else ''} you")
        if left:
            yield ", ".join(left) + "."
        if advised := next(filter(None, (_ADVISED.search(f.message) for _, f in self.findings)), None):
            yield f"The next apply adds `{advised[1]}` to the helper, once your code calls it."
        if self.left:
            yield f"{len(self.left)} left alone (-v)."
            yield from self._describe_held()
        if self.suppressed:
            yield f"{self.suppressed} suppressed."
        if self.known:
            yield f"{self.known} known (baseline)."
        if self.skipped:
            yield f"{len(self.skipped)} skipped."
        if self.failed:
            yield f"{counted(len(self.failed), 'error')}."

    def _describe_held(self) -> Iterator[str]:
        """Yield the sentence that says why most of what is held back stays on CUDA."""
        reasons: dict[str, list[str]] = {}  # by the words of a reason, the places in front of them
        for result, finding in self.left:
            if finding.held:
                place, _, words = finding.held.partition(": ")
                file = f"{visible(self.name(result.path))}, " * place.startswith(("line ", "cell "))
                reasons.setdefault(words or place, []).append(f"{file}{place}: " if words else "")
        words, places = max(reasons.items(), key=lambda reason: len(reason[1]), default=("", []))
        total = sum(map(len, reasons.values()))
        if places:
            part = "" if len(places) == total else f", {len(places)} for one reason"
            others = len(set(places)) - 1
            also = f", as at {counted(others, 'other place')}" if others else ""
            yield f"{total} of them stay{'s' if total == 1 else ''} on CUDA{part}: {places[0]}{words}{also}."

    def _describe_findings(self) -> str:
        if not self.read and not self.others:
            return "No Python files read."
        if not self.findings:
            return f"No {'new ' if self.known else ''}findings in {self._describe_files()}."
        paths = {str(result.path) for result, _ in self.findings}
        what = counted(len(self.findings), "new problem" if self.known else "problem")
        places = len({(result.path, f.cell, f.line, f.column) for result, f in self.findings})
        if places < len(self.findings):  # two rules, or two arguments of one call
            what += f" at {counted(places, 'place')}"
        return f"Found {what} in {self._describe_files(paths)}."

    def _describe_files(self, paths: Collection[str] | None = None) -> str:
        """Return `12 files` or `3 of 12 files`; with other files, `3 of 12 Python files and 1 of 7 others`."""
        groups = [(self.read, "Python file" if self.others else "file", False)] if self.read or not self.others else []
        if self.others:
            groups.append((len(self.others), "other" if groups else "file that is not Python", True))
        parts = []
        for count, one, other in groups:
            prefix = "" if paths is None else f"{sum((path in self.others) is other for path in paths)} of "
            parts.append(
                prefix + counted(count, one, "files that are not Python" if one.startswith("file that") else "")
            )
        return " and ".join(parts)

    def _describe_rewrites(self) -> str:
        old = [c for c in self.changed if not c.new]
        new = [visible(self.name(c.path)) for c in self.changed if c.new]
        files = counted(self.read, "Python file" if self.others else "file")
        if not self.changed:
            return f"Nothing to rewrite in {files}." if self.read else "No Python files read."
        rules = len({f.rule for f in self.applied})
        verb = "Rewrote" if self.written else "Would rewrite"
        added = f" and {'added' if self.written else 'add'} {', '.join(new)}" if new else ""
        edits = f"{counted(len(self.applied), 'edit')} by {counted(rules, 'rule')}"
        return f"{verb} {len(old)} of {files}{added}: {edits}."


_ADVISED = re.compile(r"`(?:if )?(\w+\.is_nvidia\(\))")  # the helper's function that findings tell to call
_SETTLED = (Status.SUPPRESSED, Status.LEFT, Status.KNOWN)


def kind(finding: Finding) -> str:
    """Return what can be done about a finding: `fixable`, `unsafe` (held back), `dropped`, or `yours`."""
    if finding.status is Status.DROPPED:
        return "dropped" if finding.fix else "yours"
    if finding.fix is None or finding.fix.safety is Safety.DISPLAY:
        return "yours"
    return "unsafe" if finding.fix.safety is Safety.UNSAFE or finding.status is Status.HELD else "fixable"


def place(name: str, finding: Finding, column: bool = True) -> str:
    """Return the place as `train.py:3:5` or `nb.ipynb:cell 2:3:5`."""
    cell = f"cell {finding.cell}:" if finding.cell is not None else ""
    return f"{name}:{cell}{finding.line}" + (f":{finding.column}" if column else "")


_WIDEST = 500  # characters of a line that reports show whole
_LONGEST = 10_000  # characters of a line that is hashed for each finding in it


@dataclass(frozen=True, slots=True)
class Entry:
    """A finding in its file, with its `source` line, and a `fingerprint` that stays when lines shift.

    `line` is that of the file, also of a notebook's JSON; `column` counts from 1 in UTF-16 units, None in a notebook.
    """

    finding: Finding
    path: Path
    name: str
    line: int
    end_line: int
    column: int | None
    end_column: int | None
    source: str
    fingerprint: str

    @property
    def suppressed(self) -> bool:
        """Return whether a comment in the source or a baseline suppresses the finding."""
        return self.finding.status in (Status.SUPPRESSED, Status.KNOWN)

    @property
    def message(self) -> str:
        """The message, with the cell and its line for a notebook, whose `line` is of the JSON file."""
        f = self.finding
        return f.message if f.cell is None else f"cell {f.cell}, line {f.line}: {f.message}"


def base_of(report: Report) -> Path:
    """Return the top of the git work tree of the files read, else of the current one, else the current directory."""
    from torchmigrate.vcs import git_tree  # a report of a clean file has no use for it

    paths = [os.fspath(result.path.parent) for result in report.results]
    try:
        start = Path(os.path.commonpath(paths)) if paths else report.here
    except ValueError:  # the paths are on two drives
        start = report.here
    return git_tree.marker(start) or git_tree.marker(report.here) or report.here


def name_of(path: Path, base: Path) -> str:
    """Return the path relative to `base` if it lies below, with slashes, as Unicode that every encoding can write."""
    name = path.relative_to(base) if path.is_relative_to(base) else path
    return os.fsencode(name.as_posix()).decode("utf-8", "replace")


def entries(report: Report, base: Path) -> list[Entry]:
    """Return the findings of a `check`, by file and place, including suppressed ones."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found: list[Entry] = []
    for result in sorted(report.results, key=lambda r: name_of(r.path, base)):
        mine = [f for f in report.of(result) if f.status is not Status.LEFT]
        text = FileText(result.path) if mine else None
        for finding in sorted(mine, key=lambda f: (f.cell or 0, f.line, f.column, f.rule, f.message)):
            assert text is not None
            found.append(_entry(finding, result.path, name_of(result.path, base), text, seen))
    return found


def _entry(finding: Finding, path: Path, name: str, text: FileText, seen: Counter[tuple[str, str, str]]) -> Entry:
    line = text.line(finding.cell, finding.line)
    source = line if len(line) <= _WIDEST else _shown(line, finding)
    same = (finding.rule, name, _key(line))
    digest = _digest("\0".join([*same, str(seen[same])]))[:32]
    seen[same] += 1
    if finding.cell is not None:
        first, last = (text.file_line(finding.cell, line) for line in (finding.line, finding.end_line))
        return Entry(finding, path, name, first, max(first, last), None, None, source, digest)
    column = utf16(line, finding.column)
    end_line = max(finding.line, finding.end_line)
    end_column = utf16(text.line(None, end_line), max(finding.end_column, 1))
    if end_line == finding.line:
        end_column = max(column, end_column)
    return Entry(finding, path, name, max(1, finding.line), max(1, end_line), column, end_column, source, digest)


def _shown(line: str, finding: Finding) -> str:
    """Return what a report shows of a long line: the finding itself, as others may stand in the same line."""
    end = finding.end_column - 1 if finding.end_line == finding.line else len(line)
    return line[finding.column - 1 : min(end, finding.column - 1 + _WIDEST)]


@lru_cache(maxsize=16)
def _key(line: str) -> str:
    """Return what stands for a line in fingerprints: the line, or its digest if it is very long."""
    if len(line) <= _LONGEST:
        return line.strip()
    return _digest(line.strip())


def _digest(text: str) -> str:
    import hashlib  # loads OpenSSL, which a report without findings does not need

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def utf16(line: str, column: int) -> int:
    """Convert a 1-based column in characters to one in UTF-16 units: an emoji counts two."""
    if line.isascii():
        return max(column, 1)
    before = line[: max(column, 1) - 1]
    return max(column, 1) - len(before) + len(before.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(frozen=True)
class FileText:
    """The lines of a file as it is now."""

    path: Path

    @cached_property
    def _raw(self) -> bytes:
        try:
            return file_io.read(self.path)
        except OSError:
            return b""

    @cached_property
    def _text(self) -> str:
        try:
            return decode(self._raw).text
        except UnreadableSource:  # not Python: UTF-16, or in no encoding
            from torchmigrate.source import text_file  # few files are not Python

            return text_file.decode(self._raw) or ""

    @cached_property
    def _lines(self) -> list[str]:
        return split_lines(self._text)

    @cached_property
    def _cells(self) -> list[tuple[list[str], list[int]]]:
        """The lines of each cell, and for each line the line of the JSON text where it begins."""
        from torchmigrate.source import json_text  # for notebooks alone

        text = self._raw.decode("utf-8-sig", "replace")
        try:
            return [_cell(text, span) for span in json_text.source_spans(text)]
        except (ValueError, IndexError, TypeError):
            return []

    def line(self, cell: int | None, number: int) -> str:
        """Return one line of code; "" if it does not exist."""
        lines = self._lines if cell is None else self._cell_lines(cell)[0]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def file_line(self, cell: int, number: int) -> int:
        """Return the line of the .ipynb file that holds a line of a cell; 1 if unknown."""
        places = self._cell_lines(cell)[1]
        return places[number - 1] if 0 < number <= len(places) else 1

    def _cell_lines(self, cell: int) -> tuple[list[str], list[int]]:
        return self._cells[cell - 1] if 0 < cell <= len(self._cells) else ([], [])


def _cell(text: str, span: tuple[int, int] | None) -> tuple[list[str], list[int]]:
    if span is None:
        return [], []
    import json

    from torchmigrate.source import json_text

    value = json.loads(text[slice(*span)])
    return split_lines(value if isinstance(value, str) else "".join(value)), json_text.line_numbers(text, span)
