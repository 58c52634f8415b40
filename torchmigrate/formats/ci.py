"""Render findings for CI systems: GitHub's workflow commands, GitLab's code quality report, JUnit's XML."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

from torchmigrate.base.text import visible, visible_lines
from torchmigrate.diagnostics.finding import Failed
from torchmigrate.formats.model import Entry, Report, entries, kind, name_of
from torchmigrate.formats.text import MARKS

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def render_github(report: Report, base: Path) -> Iterator[str]:
    """Yield a workflow command for each finding, then one for each file that could not be read."""
    for entry in entries(report, base):
        if not entry.suppressed:
            yield command("warning", _annotation_properties(entry), entry.message + MARKS[kind(entry.finding)])
    for failed in sorted(report.failed, key=lambda f: str(f.path)):
        yield command("error", {"file": name_of(failed.path, base), "title": "torchmigrate"}, failed.error)


def _annotation_properties(entry: Entry) -> dict[str, str | int]:
    """Return the properties of an annotation; columns only for a single line, since GitHub refuses others."""
    found: dict[str, str | int] = {"file": entry.name, "line": entry.line, "endLine": entry.end_line}
    if entry.column is not None and entry.end_column is not None and entry.end_line == entry.line:
        found |= {"col": entry.column, "endColumn": entry.end_column}
    return {**found, "title": entry.finding.rule}


def command(name: str, properties: dict[str, str | int], text: str) -> str:
    """Return one workflow command, with the values escaped so that they cannot end it or begin another."""
    encoded = ",".join(f"{key}={_escaped(str(value), _PROPERTY)}" for key, value in properties.items())
    return f"::{name} {encoded}::{_escaped(text, _DATA)}"


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in text)


def render_gitlab(report: Report, base: Path) -> str:
    """Return GitLab's JSON list: the findings, then files that could not be read as blockers."""
    found = [_finding_issue(entry) for entry in entries(report, base) if not entry.suppressed]
    failed = [_error_issue(each, base) for each in sorted(report.failed, key=lambda f: str(f.path))]
    return json.dumps([*found, *failed], indent=2)


def _finding_issue(entry: Entry) -> dict[str, Any]:
    severity = "major" if kind(entry.finding) == "yours" else "minor"
    lines = {"begin": entry.line, "end": entry.end_line}
    return _issue(entry.finding.rule, entry.message, entry.fingerprint, severity, entry.name, lines)


def _error_issue(failed: Failed, base: Path) -> dict[str, Any]:
    name = name_of(failed.path, base)
    digest = hashlib.sha256(f"error\0{name}".encode()).hexdigest()[:32]
    return _issue("error", failed.error, digest, "blocker", name, {"begin": 1})


def _issue(check: str, text: str, digest: str, severity: str, name: str, lines: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "issue",
        "check_name": check,
        "description": text,
        "categories": ["Compatibility"],
        "severity": severity,
        "fingerprint": digest,
        "location": {"path": name, "lines": lines},
    }


# characters that XML 1.0, section 2.2 does not allow
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: Report, base: Path) -> str:
    """Return a JUnit XML document: a suite per file, a failure per finding, an error per unreadable file."""
    found = [entry for entry in entries(report, base) if not entry.suppressed]
    failed = sorted(report.failed, key=lambda f: str(f.path))
    root = xml.Element("testsuites", name="torchmigrate")
    for name, group in groupby(found, lambda entry: entry.name):
        _suite(root, name, list(group))
    for each in failed:
        _unread(root, name_of(each.path, base), each)
    if not found and not failed:
        suite = xml.SubElement(root, "testsuite", name="torchmigrate", tests="1", failures="0", errors="0")
        xml.SubElement(suite, "testcase", name=report.summary(), classname="torchmigrate")
    tests = max(1, len(found) + len(failed))
    for key, count in (("tests", tests), ("failures", len(found)), ("errors", len(failed))):
        root.set(key, str(count))
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode")


def _suite(root: xml.Element, name: str, found: Sequence[Entry]) -> None:
    count = str(len(found))
    suite = xml.SubElement(root, "testsuite", name=legal(name), tests=count, failures=count, errors="0")
    for entry in found:
        place = f"{name}:{entry.line}" + (f":{entry.column}" if entry.column is not None else "")
        case = _case(suite, visible(f"{entry.finding.rule} ({place})"), name, entry.line)
        failure = xml.SubElement(case, "failure", type=entry.finding.rule, message=legal(visible(entry.message)))
        failure.text = legal(visible_lines(f"{place}: {entry.message}\n{entry.source}".rstrip()))


def _unread(root: xml.Element, name: str, failed: Failed) -> None:
    suite = xml.SubElement(root, "testsuite", name=legal(name), tests="1", failures="0", errors="1")
    error = xml.SubElement(_case(suite, "read", name, 1), "error", type="error", message=legal(visible(failed.error)))
    error.text = legal(visible_lines(f"{name}: {failed.error}"))


def _case(suite: xml.Element, title: str, name: str, line: int) -> xml.Element:
    return xml.SubElement(suite, "testcase", name=legal(title), classname=legal(name), file=legal(name), line=str(line))


def legal(text: str) -> str:
    """Return the text without characters that XML has no place for."""
    return _ILLEGAL.sub("\ufffd", text)
