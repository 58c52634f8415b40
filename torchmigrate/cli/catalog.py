"""`catalog`: the rows that were asked for, in the layout that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchmigrate import catalog
from torchmigrate import config as config_
from torchmigrate.cli.commands import CatalogFormat
from torchmigrate.cli.migrate import pack_errors


def run(
    *,
    names: Sequence[str] | None,
    backend: Sequence[str] | None,
    project: Path | None,
    output_format: CatalogFormat,
    output: Path | None,
) -> int:
    with pack_errors():
        found = catalog.load(config_.load([Path()]).rule_paths)
    for row in found.matching(names or ()):
        marks = " ".join(f"{name}={row.backends[name]};" for name in catalog.BACKENDS)
        print(f"{row.name}  {row.kind}  {row.action} {row.rule}{row.why}  {marks}")
    return 0
