"""What becomes of each torch API that names a device: TOML rows with a verdict per backend, an action and a source."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchmigrate.catalog.row import Row as Row
from torchmigrate.catalog.row_reader import read
from torchmigrate.rules import packs
from torchmigrate.rules.reader import PackError
from torchmigrate.torch_api.names import canonical


@dataclass(frozen=True)
class Catalog:
    """All rows by name, in the order of the names."""

    rows: Mapping[str, Row]

    def row(self, name: str) -> Row | None:
        """The row of this very API, also under a name that torch documents elsewhere (`torch.cuda.random.seed`)."""
        return self.rows.get(name) or self._twins.get(canonical(name))

    def find(self, name: str) -> Row | None:
        """`row`, else the row of what it belongs to: a class's method, a flag of an attribute's. No module's."""
        while "." in name:
            if row := self.row(name):
                return row
            name = name.rpartition(".")[0]
            if (above := self.row(name)) and above.kind == "module":
                return None
        return None

    @cached_property
    def _twins(self) -> dict[str, Row]:
        """Rows by the names that torch documents: `torch.cuda.X` for one that is written as `torch.cuda.memory.X`."""
        return {canonical(name): row for name, row in self.rows.items()}

    def matching(self, names: Sequence[str]) -> list[Row]:
        """Rows that one of these names, prefixes (`torch.cuda`) or globs (`torch.*.synchronize`) covers."""
        tests = [
            re.compile(fnmatch.translate(n) if re.search(r"[*?\[]", n) else re.escape(n) + r"(\..*)?") for n in names
        ]
        return [row for name, row in self.rows.items() if not tests or any(t.fullmatch(name) for t in tests)]


def load(rule_paths: Sequence[Path] = ()) -> Catalog:
    """Read `catalog/*.toml` below the built-in rules and `rule_paths`. Raises PackError."""
    roots = packs.roots(rule_paths)
    rules = {f"{path.parent.name}/{path.stem}" for root in roots for path in root.glob("*/*.toml")}
    return gather((path for root in roots for path in sorted((root / "catalog").glob("*.toml"))), rules)


def gather(files: Iterable[Path], rules: Collection[str] | None = None) -> Catalog:
    """The rows of these files. `rules`: the ids that they may name (None: any). Raises PackError."""
    rows: dict[str, Row] = {}
    for path in files:
        for row in read(path, rules):
            if first := rows.get(row.name):
                raise PackError(
                    f"{row.path}:{row.line}: `{row.name}` has a row already ({first.path}:{first.line})\n"
                    "help: an API has one row"
                )
            rows[row.name] = row
    return Catalog(dict(sorted(rows.items())))
