"""GitLab's Code Quality report: a JSON array; fingerprints tell merge requests what is new."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from torchmigrate.diagnostics.results import Failed
from torchmigrate.formats.model import Report, kind
from torchmigrate.formats.positions import Entry, entries, name_of


def render(report: Report, base: Path) -> str:
    """Findings, then files that could not be read as blockers."""
    found = [_entry(entry) for entry in entries(report, base) if not entry.suppressed]
    failed = [_failed(each, base) for each in sorted(report.failed, key=lambda f: str(f.path))]
    return json.dumps([*found, *failed], indent=2)


def _entry(entry: Entry) -> dict[str, Any]:
    severity = "major" if kind(entry.finding) == "yours" else "minor"
    lines = {"begin": entry.line, "end": entry.end_line}
    return _issue(entry.finding.rule, entry.message, entry.fingerprint, severity, entry.name, lines)


def _failed(failed: Failed, base: Path) -> dict[str, Any]:
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
