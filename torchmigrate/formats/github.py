"""GitHub's workflow commands: an annotation for each finding, an error for each file that could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchmigrate.formats.model import Report, kind
from torchmigrate.formats.positions import Entry, entries, name_of
from torchmigrate.formats.text import MARKS

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def lines(report: Report, base: Path) -> Iterator[str]:
    """One command each, findings first."""
    for entry in entries(report, base):
        if not entry.suppressed:
            yield command("warning", _where(entry), entry.message + MARKS[kind(entry.finding)])
    for failed in sorted(report.failed, key=lambda f: str(f.path)):
        yield command("error", {"file": name_of(failed.path, base), "title": "torchmigrate"}, failed.error)


def _where(entry: Entry) -> dict[str, str | int]:
    """Columns go with a single line only: GitHub refuses others."""
    found: dict[str, str | int] = {"file": entry.name, "line": entry.line, "endLine": entry.end_line}
    if entry.column is not None and entry.end_column is not None and entry.end_line == entry.line:
        found |= {"col": entry.column, "endColumn": entry.end_column}
    return {**found, "title": entry.finding.rule}


def command(name: str, properties: dict[str, str | int], text: str) -> str:
    """One line that the runner reads; nothing in the values ends it or begins another."""
    told = ",".join(f"{key}={_escaped(str(value), _PROPERTY)}" for key, value in properties.items())
    return f"::{name} {told}::{_escaped(text, _DATA)}"


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in text)
