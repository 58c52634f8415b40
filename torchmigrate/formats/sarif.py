"""SARIF 2.1.0 (OASIS): rules, results with regions and fixes, suppressions, and errors as notifications."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from torchmigrate import __version__
from torchmigrate.diagnostics.finding import Status
from torchmigrate.diagnostics.results import Failed
from torchmigrate.formats.model import Report, kind
from torchmigrate.formats.positions import Entry, entries

if TYPE_CHECKING:
    from torchmigrate.project.context import ProjectContext
    from torchmigrate.rules.model import Rule


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_IDLE = "a suppression that names no rule, or suppresses nothing"
_FIXED = {"fixable": "torchmigrate apply", "unsafe": "torchmigrate apply --unsafe-fixes: it may change what happens"}


def render(report: Report, base: Path, rules: Mapping[str, Rule], facts: ProjectContext | None) -> str:
    """One log of one run. Of a project's facts come the imports that a fix needs; None where no file had work."""
    found = entries(report, base)
    names = sorted({entry.finding.rule for entry in found})
    driver = {
        "name": "torchmigrate",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(name, rules.get(name)) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(report.failed, base)],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "the root of the repository"}}},
        "columnKind": "utf16CodeUnits",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "results": list(_results(found, base, names, facts)),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def uri(path: Path, base: Path) -> dict[str, str]:
    """An artifactLocation: relative to the repository, else a file URI. Bytes that are no URI's are escaped."""
    inside = path.is_relative_to(base)
    text = quote(os.fsencode((path.relative_to(base) if inside else path).as_posix()))
    if inside:
        return {"uri": text, "uriBaseId": _ROOT}
    return {"uri": f"file://{'' if text.startswith('/') else '/'}{text}"}


def _rule(name: str, rule: Rule | None) -> dict[str, Any]:
    summary = rule.summary if rule else _IDLE
    why = " ".join(rule.why.split()) if rule else "`# torchmigrate: ignore[rule]` must name a rule that has a finding."
    found: dict[str, Any] = {
        "id": name,
        "shortDescription": {"text": summary},
        "fullDescription": {"text": why},
        "help": {"text": rule.why if rule else why, "markdown": rule.why if rule else why},
        "defaultConfiguration": {"level": "warning"},
    }
    if rule and rule.see:
        found["helpUri"] = rule.see[0]
    if rule:
        found["properties"] = {"tags": ["pytorch", rule.pack], "safety": rule.safety.value}
    return found


def _invocation(failed: Sequence[Failed], base: Path) -> dict[str, Any]:
    notes = [
        {
            "level": "error",
            "message": {"text": each.error},
            "locations": [{"physicalLocation": {"artifactLocation": uri(each.path, base)}}],
        }
        for each in sorted(failed, key=lambda f: str(f.path))
    ]
    return {"executionSuccessful": not failed, **({"toolExecutionNotifications": notes} if notes else {})}


def _results(
    found: Sequence[Entry], base: Path, names: Sequence[str], facts: ProjectContext | None
) -> Iterator[dict[str, Any]]:
    from torchmigrate.formats.fixes import Fixes

    fixes = Fixes(facts) if facts else None
    for entry in found:
        finding = entry.finding
        place = {"artifactLocation": uri(entry.path, base), "region": _region(entry)}
        result: dict[str, Any] = {
            "ruleId": finding.rule,
            "ruleIndex": names.index(finding.rule),
            "level": "warning",
            "message": {"text": entry.message},
            "locations": [{"physicalLocation": place}],
            "partialFingerprints": {"torchmigrate/v1": entry.fingerprint},
        }
        if finding.backends:
            result["properties"] = {"backends": list(finding.backends)}
        replacements = fixes.replacements(entry) if fixes and kind(finding) in _FIXED else []
        if replacements:
            change = {"artifactLocation": uri(entry.path, base), "replacements": replacements}
            result["fixes"] = [{"description": {"text": _FIXED[kind(finding)]}, "artifactChanges": [change]}]
        if entry.suppressed:
            by_comment = finding.status is Status.SUPPRESSED
            result["suppressions"] = [{"kind": "inSource" if by_comment else "external"}]  # the latter: a baseline
        yield result


def _region(entry: Entry) -> dict[str, Any]:
    if entry.column is None or entry.end_column is None:
        return {"startLine": entry.line, "endLine": entry.end_line}
    return {
        "startLine": entry.line,
        "startColumn": entry.column,
        "endLine": entry.end_line,
        "endColumn": entry.end_column,
        **({"snippet": {"text": entry.source}} if entry.source else {}),
    }
