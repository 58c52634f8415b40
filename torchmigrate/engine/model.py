from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.diagnostics.results import FileResult
from torchmigrate.project import discovery
from torchmigrate.rewriting.dispatch import DispatchTable
from torchmigrate.rules.model import Ruleset

if TYPE_CHECKING:
    from torchmigrate.project.context import ProjectContext


Progress = Callable[[int, int], None]
Read = tuple[str, bytes]  # a file's path and bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run found and would write. `results` are sorted by path. `others` were read and are not Python;
    `files_seen` is without them."""

    results: list[FileResult]
    files_seen: int
    notes: list[str]
    others: frozenset[str] = frozenset()
    facts: ProjectContext | None = None  # None: no file had work


@dataclass(frozen=True, slots=True)
class Input:
    """The rules of a run and the files that it finds."""

    ruleset: Ruleset
    rules: DispatchTable
    found: Sequence[discovery.DiscoveredFile]
