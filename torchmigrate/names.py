"""Globs that match the end of a path, as rules about files that are not Python have them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchmigrate.files import glob_body

# generated, and of a kind that other globs mean; *.lock is of none
_GENERATED = ("conda-lock.yml", "pnpm-lock.yaml", "package-lock.json")


class Names:
    """Whether a path ends in one of many globs; quick, as it is asked of every file of a tree."""

    def __init__(self, globs: Iterable[str]) -> None:
        given = sorted({*globs})
        plain = [glob for glob in given if re.fullmatch(r"\*\.\w+", glob)]
        below = [glob for glob in given if "/" in glob]
        self.suffixes = tuple(glob[1:] for glob in plain)
        self.other = _ends(glob for glob in given if glob not in plain and glob not in below)
        self.tails = tuple({re.split(r"[*?\]]", glob)[-1] for glob in below})
        self.below = _ends(below)

    def match(self, path: str) -> bool:
        if path.endswith(self.suffixes):
            return not path.endswith(_GENERATED)
        if self.other and self.other.match(path, path.rfind("/") + 1):
            return not path.endswith(_GENERATED)
        return self.below is not None and path.endswith(self.tails) and self._is_below(path)

    def _is_below(self, path: str) -> bool:
        """Whether it lies in the directories that a glob names, wherever those are."""
        starts = [0, *(m.end() for m in re.finditer("/", path))]
        return self.below is not None and any(self.below.match(path, start) for start in starts)


def _ends(globs: Iterable[str]) -> re.Pattern[str] | None:
    bodies = "|".join(map(glob_body, globs))
    return re.compile(rf"(?:{bodies})\Z") if bodies else None
