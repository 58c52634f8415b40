"""The JSON report: `{version, summary, skipped, findings, errors}`; rewritten findings are included."""

from __future__ import annotations

import json
from typing import Any

from torchmigrate import __version__
from torchmigrate.diagnostics.finding import Changed, Finding, Status, Unchanged
from torchmigrate.formats.model import Report


def render(report: Report) -> str:
    findings = []
    for result in report.results:
        if isinstance(result, (Changed, Unchanged)):
            name = report.name(result.path)
            done = result.applied if isinstance(result, Changed) else ()
            findings += [_finding(f, name, report.written) for f in done]
            findings += [_finding(f, name, False) for f in result.findings]
    data = {
        "version": __version__,
        "summary": _summary(report),
        "findings": findings,
        "skipped": [{"file": report.name(s.path), "reason": s.reason} for s in report.skipped],
        "errors": [{"file": report.name(f.path), "message": f.error} for f in report.failed],
    }
    return json.dumps(data, indent=2)


def _summary(report: Report) -> dict[str, Any]:
    counts = report.kinds()
    return {
        "command": report.command,
        "files": report.files_seen,
        "other_files": len(report.others),
        "changed": [report.name(c.path) for c in report.changed],
        "applied": len(report.applied) if report.written else 0,
        "findings": len(report.findings),
        **{name: counts[name] for name in ("fixable", "unsafe", "dropped")},
        "needs_you": counts["yours"],
        "left": len(report.left),
        "suppressed": report.suppressed,
        "known": report.known,
        "errors": len(report.failed),
        "rules": {rule: done + left for rule, done, left in report.statistics()},
    }


def _finding(finding: Finding, name: str, applied: bool) -> dict[str, Any]:
    status = finding.status
    if not applied and status is Status.APPLIED:  # a plan only (`check`, `--dry-run`): nothing was applied
        status = Status.OPEN
    return {
        "rule": finding.rule,
        "safety": finding.safety.value,
        "status": status.value,
        "file": name,
        "cell": finding.cell,
        "span": {
            "start": {"line": finding.line, "column": finding.column},
            "end": {"line": finding.end_line, "column": finding.end_column},
        },
        "message": finding.message,
        "backends": list(finding.backends),
        "fix": _fix(finding),
        "applied": applied,
        "url": finding.see or None,
    }


def _fix(finding: Finding) -> dict[str, Any] | None:
    if finding.fix is None:
        return None
    edits = [{"start": e.start, "end": e.end, "text": e.text} for e in finding.fix.edits]
    return {"safety": finding.fix.safety.value, "edits": edits}
