"""One line per finding, for editors and grep."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.report import Report, kind, place
from torchmigrate.visible import visible

MARKS = {"fixable": " [fixable]", "unsafe": " [unsafe fix]", "dropped": " [fix dropped]", "yours": ""}


def lines(report: Report) -> Iterator[str]:
    for result, finding in report.findings:
        where = visible(place(report.name(result.path), finding))
        yield f"{where}: {finding.rule}: {visible(finding.message)}{MARKS[kind(finding)]}"
