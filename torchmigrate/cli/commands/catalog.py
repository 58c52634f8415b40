"""Run `catalog`: print the rows that were asked for, or those that a project uses."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base.text import UserError, counted, did_you_mean
from torchmigrate.cli.output import columns, emit
from torchmigrate.config import config_file as config_
from torchmigrate.config.resolve import pack_errors, split_names
from torchmigrate.formats import catalog as report
from torchmigrate.surveys import catalog_rows
from torchmigrate.surveys.catalog_rows import BACKENDS, MISSING, Row

if TYPE_CHECKING:
    from torchmigrate.cli.parameters import CatalogFormat
    from torchmigrate.surveys.catalog_usage import Usage


def run(
    *,
    names: Sequence[str] | None,
    backend: Sequence[str] | None,
    project: Path | None,
    output_format: CatalogFormat,
    output: Path | None,
) -> int:
    """Print the rows; return 2 if a file of the project could not be read, else 0."""
    settings = config_.load([project or Path()])
    backends = _backends(backend or ())
    with pack_errors():
        found = catalog_rows.load(settings.rule_paths)
    rows = [row for row in _matching(found, names or ()) if not backend or row.departs(backends)]
    here = Path(os.path.realpath(os.curdir))
    if project is None:
        emit(_render(report.Selection(rows, report.every(backends)), output_format, output), output)
        print(counted(len(rows), "API"), file=sys.stderr)
        return 0
    from torchmigrate.surveys import catalog_usage

    used = catalog_usage.survey(project, settings, found)
    rows = sorted((row for row in rows if row.name in used.places), key=lambda row: -len(used.places[row.name]))
    selection = report.Selection(rows, report.every(backends), used.places, here)
    emit(_render(selection, output_format, output), output)
    for line in _summary_lines(used, selection):
        print(line, file=sys.stderr)
    return 2 if used.failed else 0


def _backends(given: Sequence[str]) -> tuple[str, ...]:
    names = split_names(given) or ()
    for name in names:
        if name not in BACKENDS:
            raise UserError(f"--backend names no backend: `{name}`", did_you_mean(name, BACKENDS) or _known())
    return names


def _known() -> str:
    return f"known: {', '.join(BACKENDS)}"


def _matching(found: catalog_rows.Catalog, names: Sequence[str]) -> list[Row]:
    """Return the rows that the names cover; raises UserError for a name that covers none."""
    for name in names:
        if not found.matching([name]):
            raise UserError(
                f"no API is called `{name}`", did_you_mean(name, found.rows) or "see `torchmigrate catalog`"
            )
    return found.matching(names)


def _render(selection: report.Selection, output_format: CatalogFormat, output: Path | None) -> Iterator[bytes]:
    if output_format.value == "json":
        lines = iter([report.render(selection)])
    else:
        lines = (
            report.markdown(selection)
            if output_format.value == "markdown"
            else report.text(selection, None if output else columns(sys.stdout))
        )
    yield from (f"{line}\n".encode(errors="surrogateescape") for line in lines)


def _summary_lines(used: Usage, selection: report.Selection) -> Iterator[str]:
    """Yield the lines below the table: names without a row, unreadable files, totals, and what is missing where."""

    def name(path: Path) -> str:
        return path.relative_to(selection.here).as_posix() if path.is_relative_to(selection.here) else str(path)

    for api, places in used.unknown.items():
        path, first = places[0]
        yield f"note: the catalog has no row for {api} ({counted(len(places), 'use')}, first {name(path)}:{first.line})"
    for failed in used.failed:
        yield f"error: {name(failed.path)}: {failed.error}"
    uses = sum(map(selection.count, selection.rows))
    yield (
        f"{counted(len(selection.rows), 'API')} in {counted(uses, 'use')}, in {counted(used.read, 'file')} read."
        + (f" {len(used.skipped)} skipped." if used.skipped else "")
        + (f" {counted(len(used.failed), 'error')}." if used.failed else "")
    )
    lacking = Counter(
        {b: sum(selection.count(r) for r in selection.rows if r.backends[b] == MISSING) for b in BACKENDS}
    )
    if shown := [f"{b} {lacking[b]}" for b in selection.backends if lacking[b]]:
        yield f"Uses of what is missing there, once migrated: {', '.join(shown)}."
