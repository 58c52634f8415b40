"""Globs that match the end of a path, as rules about files that are not Python have them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from torchmigrate.globs import alternatives, glob_body

_PLAIN = re.compile(r"\*\.\w+")
_WILD = re.compile(r"[*?\[\]]")
# generated, and of a kind that other globs mean; *.lock is of none
_GENERATED = ("conda-lock.yml", "pnpm-lock.yaml", "package-lock.json")


class Names:
    """Whether a path ends in one of many globs. Asked of every file of a tree, so that most are told by how their name
    begins or ends, and regular expressions are compiled when one is needed."""

    def __init__(self, globs: Iterable[str]) -> None:
        given = sorted({one for glob in globs for one in alternatives(glob)})
        plain = [glob for glob in given if _PLAIN.fullmatch(glob)]
        self._below = [glob for glob in given if "/" in glob]
        self._other = [glob for glob in given if glob not in plain and glob not in self._below]
        self.suffixes = tuple(glob[1:] for glob in plain)
        parts = [_WILD.split(glob) for glob in self._other]
        self._heads = tuple({part[0] for part in parts if part[0]})
        self._tails = tuple({part[-1] for part in parts if not part[0]})
        self._below_tails = tuple({_WILD.split(glob)[-1] for glob in self._below})

    def match(self, path: str) -> bool:
        if path.endswith(self.suffixes):
            return not path.endswith(_GENERATED)
        start = path.rfind("/") + 1
        if (path.startswith(self._heads, start) or path.endswith(self._tails)) and self.other.match(path, start):
            return not path.endswith(_GENERATED)
        return path.endswith(self._below_tails) and self._is_below(path)

    def _is_below(self, path: str) -> bool:
        """Whether it lies in the directories that a glob names, wherever those are."""
        starts = [0, *(m.end() for m in re.finditer("/", path))]
        return any(self.below.match(path, start) for start in starts)

    @cached_property
    def other(self) -> re.Pattern[str]:
        return _ends(self._other)

    @cached_property
    def below(self) -> re.Pattern[str]:
        return _ends(self._below)


def _ends(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(map(glob_body, globs))})\Z")
