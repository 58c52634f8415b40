"""One line per finding, for editors and grep."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.report import Report, kind, place

MARKS = {"fixable": " [fixable]", "unsafe": " [unsafe fix]", "dropped": " [fix dropped]", "yours": ""}


def lines(report: Report) -> Iterator[str]:
    for result, finding in report.findings:
        yield f"{place(report.name(result.path), finding)}: {finding.rule}: {finding.message}{MARKS[kind(finding)]}"
