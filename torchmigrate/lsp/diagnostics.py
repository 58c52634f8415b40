"""Findings as diagnostics."""

from __future__ import annotations

from collections.abc import Mapping

from lsprotocol.types import CodeDescription, Diagnostic, DiagnosticSeverity

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.formats.model import kind
from torchmigrate.lsp.analysis import Analysis

SOURCE = "torchmigrate"


def by_document(analysis: Analysis) -> Mapping[str, list[Diagnostic]]:
    """By the URI of the text or cell. All of a file's documents are in it: those without diagnostics, too."""
    found: dict[str, list[Diagnostic]] = {document.uri: [] for document in analysis.file.documents.values()}
    for finding in analysis.findings:
        if document := analysis.file.documents.get(finding.cell):
            found[document.uri].append(diagnostic(finding, analysis))
    return found


def diagnostic(finding: Finding, analysis: Analysis) -> Diagnostic:
    """The severity says how sure it is that the line is of concern, not who mends it: an unsafe fix rests on what the
    code does not show, so the finding does; what a person must decide breaks on some backend for certain."""
    unsafe = kind(finding) == "unsafe"
    matters = f"\nMatters on: {', '.join(finding.backends)}" if finding.backends else ""
    return Diagnostic(
        range=analysis.file.documents[finding.cell].text.of(finding),
        message=finding.message + matters,
        severity=DiagnosticSeverity.Information if unsafe else DiagnosticSeverity.Warning,
        code=finding.rule,
        code_description=CodeDescription(finding.see) if finding.see.startswith("https://") else None,
        source=SOURCE,
    )
