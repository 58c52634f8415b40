"""The files that a run speaks about, where these are not all that it reads, and texts that stand in for files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchmigrate.project.discovery import SUFFIXES, DiscoveredFile, TextGlobs


@dataclass(frozen=True, slots=True)
class Selection:
    """`paths` are real ones, None means all. `texts` are by path; their files need not exist."""

    paths: frozenset[str] | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def names(self, path: str) -> bool:
        """Is this file one of them?"""
        return self.paths is None or path in self.paths

    def holds(self, item: DiscoveredFile) -> bool:
        """The same of what was found. A directory that was left out counts with what lies below it, and a path that
        does not exist with whoever typed it."""
        path = str(item.path)
        if self.paths is None or path in self.paths:
            return True
        if item.error is not None:
            return item.named and not self.texts
        return item.skipped_reason is not None and any(p.startswith(f"{path}/") for p in self.paths)

    def completed(self, found: Sequence[DiscoveredFile], rules: TextGlobs) -> Sequence[DiscoveredFile]:
        """With the files that have a text here in place of what was found of them."""
        if not self.texts:
            return found
        others = [item for item in found if str(item.path) not in self.texts]
        return sorted([*others, *(_named(path, rules) for path in self.texts)], key=lambda item: str(item.path))


def _named(path: str, rules: TextGlobs) -> DiscoveredFile:
    text = not path.endswith(SUFFIXES) and bool(rules.readable.match(path))
    return DiscoveredFile(Path(path), text=text, named=True)


EVERYTHING = Selection()
