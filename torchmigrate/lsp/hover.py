"""Show the catalog's row for the name under the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lsprotocol.types import Hover, MarkupContent, MarkupKind, Position

from torchmigrate.base.text import listed
from torchmigrate.config.resolve import pack_errors
from torchmigrate.formats import catalog
from torchmigrate.formats.markdown import code, plain
from torchmigrate.lsp.analysis import Analysis
from torchmigrate.project.context import ProjectContext, project_root
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.encoding import Source
from torchmigrate.surveys import catalog_rows
from torchmigrate.surveys.catalog_rows import HELPER, LEFT, VERDICTS, Catalog, Row
from torchmigrate.surveys.catalog_usage import Found, Lookup


def hover(analysis: Analysis, uri: str, position: Position, markdown: bool) -> Hover | None:
    """Return the hover text, or None if no API of the catalog is there or the text does not parse; raises UserError."""
    file = analysis.file
    cell, document = next((item for item in file.documents.items() if item[1].uri == uri), (None, None))
    if document is None:
        return None
    text = document.text
    before = text.text[text.start(1) : text.offset(position)]
    try:
        source, start = file.module(cell)
        found = _found(analysis, source, start + len(before.encode())) if file.is_python else None
    except (SyntaxError, ValueError, RecursionError):
        return None
    if found is None:
        return None
    above = source.position(start)[0] - 1
    places = (source.position(offset) for offset in (found.start, found.end))
    first, last = ((line - above, column) for line, column in places)
    contents = "\n".join(_lines(found, analysis)) if markdown else catalog.paragraph(found.row, found.name)
    kind = MarkupKind.Markdown if markdown else MarkupKind.PlainText
    return Hover(MarkupContent(kind, contents), text.between(first, last))


def _found(analysis: Analysis, source: Source, offset: int) -> Found | None:
    path = analysis.file.path
    facts = analysis.facts or ProjectContext(project_root([path]), analysis.settings)
    with pack_errors():
        known = rows(analysis.settings.rule_paths)
    return Lookup(SemanticModel(path, source, facts), known).at(offset)


@cache
def rows(rule_paths: tuple[Path, ...]) -> Catalog:
    """Return the catalog, including that of the project's own packs; cached, as reading it takes a moment."""
    return catalog_rows.load(rule_paths)


def _lines(found: Found, analysis: Analysis) -> Iterator[str]:
    """Yield the row as Markdown: a line for each verdict, what becomes of the API, why, and the source."""
    row = found.row
    part = f" (of {code(row.name)})" if found.name != row.name else ""
    yield f"**{code(found.name)}**{part}, {row.kind}, in a migrated project:"
    yield ""
    for verdict in VERDICTS:
        if names := [
            catalog.NAMES[name].removeprefix("the ") for name, each in row.backends.items() if each == verdict
        ]:
            helped = f" ({code(f'accel.{row.helper}')})" if verdict == HELPER else ""
            yield f"- {verdict}{helped}: {', '.join(names)}"
    yield ""
    yield from _becomes(row, analysis)
    since = f"torch has it since {row.since}. " if row.since else ""
    yield since + f"[Source]({row.source})" if row.source.startswith("https://") else since + plain(row.source)


def _becomes(row: Row, analysis: Analysis) -> Iterator[str]:
    why = f": {row.why}" if row.why else ""
    if row.action == LEFT:
        yield f"Left alone{plain(why)}\n"
        return
    yield f"{row.action.capitalize()} by {listed([code(name) for name in row.rules])}{plain(why)}\n"
    for rule in filter(None, map(analysis.rules.rules.get, row.rules[:1])):
        yield plain(" ".join(rule.why.split())) + "\n"
