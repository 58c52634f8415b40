"""Render the portability report as JSON; docs/report.md lists its keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from torchmigrate import __version__
from torchmigrate.surveys.portability import SCORED, Entry, Reason, Site, State, Survey


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
