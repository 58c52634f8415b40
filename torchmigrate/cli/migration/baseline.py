"""`--baseline`, `--write-baseline` and `--add-ignores` keep old findings from counting.

A baseline is a JSON file with one finding per line. Known findings do not count; those no longer found are noted, then
dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base import file_io, system
from torchmigrate.base.text import UserError, counted
from torchmigrate.diagnostics.finding import Changed, FileResult, Finding, SourceLines, Status, Unchanged, failures

if TYPE_CHECKING:
    from torchmigrate.cli.selection import Request
    from torchmigrate.config.settings import Settings
    from torchmigrate.formats.model import Report
    from torchmigrate.project.discovery import Selection


_FORMAT = "torchmigrate-baseline"
_VERSION = 1
_SETTLED = (Status.SUPPRESSED, Status.LEFT)
_FIELDS = ("file", "rule", "fingerprint")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """An entry is a known finding: a file relative to the baseline, and a fingerprint of its lines' text."""

    file: str
    rule: str
    fingerprint: str


def entries(result: FileResult, findings: Sequence[Finding], directory: Path) -> Iterator[tuple[Finding, Entry]]:
    """Yield a file's findings with their entries, equal ones numbered; suppressed and left ones have none."""
    lines = SourceLines(result, True)
    file = system.relative(result.path, directory)
    seen: Counter[str] = Counter()
    for finding in sorted(findings, key=lambda f: (f.cell or 0, f.line, f.column, f.rule)):
        if finding.status in _SETTLED:
            continue
        text = "".join("".join(lines.lines_of(finding)).split())  # ignore white space and so formatting
        key = "\0".join((finding.rule, file, text))
        yield finding, Entry(file, finding.rule, _digest(f"{key}\0{seen[key]}"))
        seen[key] += 1


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def read(file: Path) -> frozenset[Entry]:
    """Return the entries of a baseline. Raises UserError if the file is missing or not a baseline."""
    try:
        data = json.loads(file_io.read(file))
    except FileNotFoundError:
        raise UserError(f"{file}: no such baseline", "--write-baseline makes it") from None
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise UserError(f"{file}: {what}", "--baseline wants a file that --write-baseline wrote") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:{error.lineno}: not JSON ({error.msg})", _rewrite_hint(file)) from None
    except (ValueError, RecursionError):
        raise UserError(f"{file}: not JSON", _rewrite_hint(file)) from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise UserError(f"{file}: JSON, but no baseline of torchmigrate's", "name another file")
    if data.get("version") != _VERSION:
        what = f"{file}: a baseline of version {data.get('version')!r}; this torchmigrate reads version {_VERSION}"
        raise UserError(what, f"use the torchmigrate that wrote it, or {_rewrite_hint(file)}")
    return frozenset(_entries(data.get("findings"), file))


def _rewrite_hint(file: Path) -> str:
    return f"delete {file} and write it anew with --write-baseline"


def _entries(data: object, file: Path) -> Iterator[Entry]:
    if not isinstance(data, list):
        raise UserError(f"{file}: `findings` must be a list", _rewrite_hint(file))
    for number, item in enumerate(data, 1):
        values = [item.get(field) for field in _FIELDS] if isinstance(item, dict) else []
        if not values or not all(isinstance(value, str) for value in values):
            raise UserError(f"{file}: finding {number} lacks one of {', '.join(_FIELDS)}", _rewrite_hint(file))
        yield Entry(*map(str, values))


def render(found: Iterable[Entry]) -> bytes:
    """Return the file's bytes: sorted, one entry per line."""
    rows = [f"  {json.dumps({name: getattr(entry, name) for name in _FIELDS})}" for entry in sorted(found)]
    body = "[\n" + ",\n".join(rows) + "\n ]" if rows else "[]"
    return f'{{\n "format": "{_FORMAT}",\n "version": {_VERSION},\n "findings": {body}\n}}\n'.encode()


_NAMED = 3


@dataclass(frozen=True)
class _Scope:
    """A run covered these files and rules; other entries of the baseline are neither found nor missed."""

    tops: Sequence[str]
    only: Selection
    unread: Collection[str]
    idle: Collection[str]  # rules that the run left out

    def covers(self, entry: Entry, directory: Path) -> bool:
        path = os.path.normpath(directory / entry.file)
        looked_at = _lies_in(path, self.tops) and self.only.names(path) and not _lies_in(path, self.unread)
        return looked_at and entry.rule not in self.idle


def _lies_in(path: str, places: Iterable[str]) -> bool:
    return any(path == place or system.is_inside(path, place) for place in places)


def settle(
    results: Sequence[FileResult], request: Request, settings: Settings, only: Selection
) -> Sequence[FileResult]:
    """Mark the findings that the baseline knows; raises UserError if it cannot be read.

    Entries that this run should have found and did not are noted, or dropped with `--write-baseline`.
    """
    assert request.baseline is not None
    file = Path(os.path.realpath(request.baseline))
    old = read(request.baseline) if file.exists() or not request.write_baseline else frozenset()
    pairs = {r.path: list(entries(r, r.findings, file.parent)) for r in results if isinstance(r, Unchanged)}
    found = {entry for reported in pairs.values() for _, entry in reported}
    tops = [os.path.realpath(path) for path in request.paths]
    unread = {str(failed.path) for failed in failures(results)}
    scope = _Scope(tops, only, unread, _idle(settings))
    stale = {entry for entry in old - found if scope.covers(entry, file.parent)}
    known = old
    if request.write_baseline:
        reported = {e for pair in pairs.values() for f, e in pair if _is_reported(f, settings)}
        known = frozenset((old - stale) | reported)
        _write(known, old, request)
    elif stale:
        _say_stale(stale, request)
    return [_mark_known(r, pairs[r.path], known) if isinstance(r, Unchanged) else r for r in results]


def add_ignores(report: Report, request: Request, write: Callable[..., Sequence[FileResult]]) -> list[FileResult]:
    """Write a comment above each finding, and return the results with what the comments suppress."""
    from torchmigrate.base import file_io
    from torchmigrate.diagnostics import suppressions

    wanted: dict[Path, list[Finding]] = {}
    for result, finding in report.findings:
        if finding.rule != "suppression":
            wanted.setdefault(result.path, []).append(finding)
    changes = []
    for path, findings in wanted.items():
        raw = file_io.read(path)
        after, rest = suppressions.add(path, raw, findings)
        if after != raw:
            changes.append(Changed(path, raw, after, tuple(f for f in findings if f not in rest)))
    outcomes = {result.path: result for result in write(changes, replace(request, allow_dirty=True))}
    done = {path: result for path, result in outcomes.items() if isinstance(result, Changed)}
    hidden = sum(len(change.applied) for change in done.values())
    request.say(f"note: comments in {counted(len(done), 'file')} ignore {counted(hidden, 'finding')} from now on")
    if left := len(report.findings) - hidden:
        where = "notebooks, JSON and the like take no comment"
        request.say(f"note: {counted(left, 'finding')} could not be ignored ({where}): see per-file-ignores")
    return [_after_comments(r, outcomes.get(r.path)) for r in report.results]


def _after_comments(result: FileResult, outcome: FileResult | None) -> FileResult:
    if not isinstance(outcome, Changed) or not isinstance(result, Unchanged):
        return outcome or result
    found = (f.with_status(Status.SUPPRESSED) if f in outcome.applied else f for f in result.findings)
    return replace(result, findings=tuple(found), text=outcome.before)


def _idle(settings: Settings) -> Collection[str]:
    if not settings.select and not settings.ignore:
        return ()
    from torchmigrate.rules import packs

    rules = packs.load(settings.rule_paths, cases=False)
    return rules.rules.keys() - rules.selected(settings.select, settings.ignore).rules.keys()


def _is_reported(finding: Finding, settings: Settings) -> bool:
    """Return whether a run for these backends reports the finding."""
    named = settings.backends
    return not named or not finding.backends or not set(named).isdisjoint(finding.backends)


def _write(known: Collection[Entry], old: Collection[Entry], request: Request) -> None:
    from torchmigrate.base import file_io
    from torchmigrate.cli.output import refuse_link_out

    assert request.baseline is not None
    target, data = request.baseline, render(known)
    refuse_link_out(target)
    try:
        if not target.is_file() or file_io.head(target, len(data) + 1) != data:
            file_io.alone(target, data)
    except OSError as error:
        what = f"cannot write {request.baseline}: {(error.strerror or str(error)).lower()}"
        raise UserError(what, "name a file in a directory that is there and can be written") from None
    added, dropped = len({*known} - {*old}), len({*old} - {*known})
    request.say(f"note: {request.baseline}: {counted(len(known), 'finding')}, {added} new, {dropped} dropped")


def _say_stale(stale: Iterable[Entry], request: Request) -> None:
    places = sorted({f"{entry.file}: {entry.rule}" for entry in stale})
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    count = counted(len({*stale}), "finding")
    request.say(
        f"note: {count} of the baseline no longer found ({', '.join(places[:_NAMED])}{more}); "
        "--write-baseline drops what is gone"
    )


def _mark_known(result: Unchanged, pairs: Sequence[tuple[Finding, Entry]], known: Collection[Entry]) -> Unchanged:
    mine = {id(finding): entry for finding, entry in pairs}
    found = (f.with_status(Status.KNOWN) if mine.get(id(f)) in known else f for f in result.findings)
    return replace(result, findings=tuple(found))
