"""The JSON reports: the findings of a run, rewritten ones included, and the portability report (docs/report.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from torchmigrate import __version__
from torchmigrate.diagnostics.finding import Changed, Finding, Status, Unchanged
from torchmigrate.formats.model import Report
from torchmigrate.surveys.portability import SCORED, Entry, Reason, Site, State, Survey


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


def render_portability(survey: Survey) -> str:
    """Return JSON: `{version, torch, root, files, score, modules, reasons, needs_you, apart, errors}`."""
    data = {
        "version": __version__,
        "torch": survey.torch,
        "root": str(survey.root),
        "files": survey.files,
        "score": _score(survey, survey.sites),
        "modules": [{"name": m.name, "score": _score(survey, m.sites)} for m in survey.modules],
        "reasons": [_reason(reason) for reason in survey.reasons],
        "needs_you": [_entry(e) for waiting in survey.waiting(State.YOURS) for e in waiting.entries],
        "apart": {
            "suppressed": survey.apart.suppressed,
            "left": survey.apart.left,
            "idle_comments": survey.apart.idle_comments,
            "skipped": [{"file": file, "reason": why} for file, why in survey.apart.skipped],
            "rules": list(survey.apart.rules),
        },
        "errors": [{"file": file, "message": message} for file, message in survey.errors],
    }
    return json.dumps(data, indent=2) + "\n"


def _score(survey: Survey, sites: Sequence[Site]) -> dict[str, dict[str, int]]:
    shares = {backend: survey.share(backend, sites) for backend in survey.backends}
    return {
        b: {"sites": s.sites, "before": s.before, "after": s.after, "after_unsafe": s.after_unsafe}
        for b, s in shares.items()
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "rule": reason.id,
        "summary": reason.summary,
        "why": reason.rule.why if reason.rule else "",
        "see": list(reason.rule.see) if reason.rule else [],
        "count": len(reason.entries),
        **{state.value: reason.count(state) for state in State},
        "places": [_entry(entry) for entry in reason.entries],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    place = entry.place
    return {
        "rule": entry.rule,
        "state": entry.state.value,
        "file": place.file,
        "cell": place.cell or None,
        "line": place.line,
        "column": place.column,
        "message": entry.message,
        "backends": [b for b in SCORED if b in entry.backends],
        "source": entry.source,
    }
