"""JUnit XML: a suite for each file, a failed case for each finding; a run without findings is a case that passes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree as xml

from torchmigrate.diagnostics.results import Failed
from torchmigrate.formats.model import Report
from torchmigrate.formats.positions import Entry, entries, name_of

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, section 2.2


def render(report: Report, base: Path) -> str:
    """The whole document."""
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
    suite = xml.SubElement(root, "testsuite", name=_legal(name), tests=count, failures=count, errors="0")
    for entry in found:
        place = f"{name}:{entry.line}" + (f":{entry.column}" if entry.column is not None else "")
        case = _case(suite, f"{entry.finding.rule} ({place})", name, entry.line)
        failure = xml.SubElement(case, "failure", type=entry.finding.rule, message=_legal(entry.message))
        failure.text = _legal(f"{place}: {entry.message}\n{entry.source}".rstrip())


def _unread(root: xml.Element, name: str, failed: Failed) -> None:
    suite = xml.SubElement(root, "testsuite", name=_legal(name), tests="1", failures="0", errors="1")
    error = xml.SubElement(_case(suite, "read", name, 1), "error", type="error", message=_legal(failed.error))
    error.text = _legal(f"{name}: {failed.error}")


def _case(suite: xml.Element, title: str, name: str, line: int) -> xml.Element:
    return xml.SubElement(
        suite, "testcase", name=_legal(title), classname=_legal(name), file=_legal(name), line=str(line)
    )


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
