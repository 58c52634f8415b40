"""SARIF 2.1.0 (OASIS): rules, results with regions and fixes, suppressions, and errors as notifications."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from torchmigrate import __version__
from torchmigrate.base import file_io
from torchmigrate.diagnostics.finding import Failed, Status
from torchmigrate.formats.markdown import plain
from torchmigrate.formats.model import Entry, Report, entries, kind, utf16
from torchmigrate.helper import import_edits
from torchmigrate.helper.import_edits import with_import
from torchmigrate.helper.placement import Placement, placed
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting.rewrite import plainer
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import binds_torch
from torchmigrate.source.edits import Edit, compose, flatten
from torchmigrate.source.encoding import Source, decode

if TYPE_CHECKING:
    from torchmigrate.rules.model import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
# rules that have no file: what is wrong, and why that counts
_UNFILED = {
    "suppression": (
        "a suppression that names no rule, or suppresses nothing",
        "`# torchmigrate: ignore[rule]` must name a rule that has a finding.",
    ),
    "helper": (
        "a copy of the helper that is missing or out of date",
        "Files import it, and call what it has to hold.",
    ),
}
_FIXED = {"fixable": "torchmigrate apply", "unsafe": "torchmigrate apply --unsafe-fixes: it may change what happens"}


def render(report: Report, base: Path, rules: Mapping[str, Rule], facts: ProjectContext | None) -> str:
    """Return one SARIF log with one run; `facts` give the imports that a fix needs (None: no file had work)."""
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
    """Return an artifactLocation: relative to the repository, else a file URI; other bytes are escaped."""
    inside = path.is_relative_to(base)
    text = quote(os.fsencode((path.relative_to(base) if inside else path).as_posix()))
    if inside:
        return {"uri": text, "uriBaseId": _ROOT}
    return {"uri": f"file://{'' if text.startswith('/') else '/'}{text}"}


def _rule(name: str, rule: Rule | None) -> dict[str, Any]:
    summary, why = (rule.summary, " ".join(rule.why.split())) if rule else _UNFILED[name]
    found: dict[str, Any] = {
        "id": name,
        "shortDescription": {"text": summary},
        "fullDescription": {"text": why},
        "help": {"text": rule.why if rule else why, "markdown": plain(rule.why) if rule else why},
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


_READ_ANEW = 4_000_000  # bytes per file, which take some seconds


@dataclass(slots=True)
class Fixes:
    """The SARIF fixes of one `check`; keeps the file that was read last.

    Each fix stands alone, so the file is read anew with it: a large file has fixes for its first findings only.
    """

    facts: ProjectContext
    left: int = 0  # bytes that may still be read anew
    _last: tuple[Path, SemanticModel] | None = field(default=None)

    def replacements(self, entry: Entry) -> list[dict[str, Any]]:
        """Return SARIF replacements in the order of the file; none for a notebook, whose fixes apply to cells."""
        if entry.finding.cell is not None or entry.finding.fix is None:
            return []
        try:
            module = self._module(entry.path)
            self.left -= len(module.source.utf8)
            if self.left < 0:
                return []
            return [_replacement(module.source, edit) for edit in self._edits(entry, module)]
        except (OSError, SyntaxError, ValueError, RecursionError):  # the file changed since the check
            return []

    def _module(self, path: Path) -> SemanticModel:
        if self._last is None or self._last[0] != path:
            self._last = path, SemanticModel(path, decode(file_io.read(path)), self.facts)
            self.left = _READ_ANEW
        return self._last[1]

    def _edits(self, entry: Entry, module: SemanticModel) -> list[Edit]:
        fix = entry.finding.fix
        assert fix is not None
        passes: list[tuple[Edit, ...]] = [tuple(sorted(set(fix.edits)))]
        text = replace(module.source, utf8=compose(module.source.utf8, passes[0]))
        after = SemanticModel(entry.path, text, self.facts, module.original)
        for lines in (False, True):
            if plainly := plainer(after, module, passes, lines):
                passes.append(plainly)
                text = replace(text, utf8=compose(text.utf8, plainly))
                after = SemanticModel(entry.path, text, self.facts, module.original)
        if drops := tuple(import_edits.removals(module, after, tidy=True)):
            passes.append(drops)
            text = replace(text, utf8=compose(text.utf8, drops))
            after = SemanticModel(entry.path, text, self.facts, module.original)
        torch = "torch" in fix.needs and not binds_torch(after)
        if "accel" in fix.needs or torch:
            place = placed(after) if "accel" in fix.needs else Placement("", "")
            edits = with_import(after, place.statement, torch, place.root)
            passes += [edits] if edits else []
        return flatten(passes, len(module.source.utf8))


def _replacement(source: Source, edit: Edit) -> dict[str, Any]:
    region = _position(source, edit.start, "start") | _position(source, edit.end, "end")
    return {"deletedRegion": region, **({"insertedContent": {"text": edit.text}} if edit.text else {})}


def _position(source: Source, offset: int, end: str) -> dict[str, int]:
    line, column = source.position(offset)
    text = source.line_at(offset).decode(errors="replace")
    return {f"{end}Line": line, f"{end}Column": utf16(text, column)}
