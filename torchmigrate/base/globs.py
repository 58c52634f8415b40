"""Globs over slash-separated paths: what settings exclude or ignore, and which files rules read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice, pairwise

_PARTS = r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]+\])"
_WILDCARD = re.compile(r"[*?\[]")
_WILD = {"**/": "(?:.*?/)??", "**": ".*?", "*": "[^/]*?", "?": "[^/]"}
_CHOICE = r"\{([^{}]*,[^{}]*)\}"
_CROSSING = ("**", "**/")
_CHOICES, _CROSSINGS, _LONGEST = 64, 4, 1_000  # more is no pattern that a person wrote


class Globs:
    """Exclusions. A pattern without a slash matches any part of a path; one with a slash matches from the root.
    Both match what lies below a directory that they match. `**` crosses directories, `{a,b}` is either."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._any = re.compile("|".join(f"(?:{_regex(p)})" for p in self._patterns)) if self._patterns else None
        self.names = frozenset(p.strip("/") for p in self._patterns if not re.search(r"[*?\[{]|/.", p))

    def match(self, path: str) -> str | None:
        """The pattern that excludes this path (relative to the root, slash-separated)."""
        if self._any is None or not self._any.search(path):
            return None
        return next(pattern for pattern in self._patterns if re.search(_regex(pattern), path))


@cache
def _regex(pattern: str) -> str:
    return "|".join(_expression(one) for one in alternatives(pattern))


def _expression(pattern: str) -> str:
    body = pattern.removeprefix("./").rstrip("/")
    start = "^" if "/" in body else "(?:^|/)"
    return start + glob_body(body.lstrip("/")) + "(?:/|$)"


def alternatives(glob: str) -> Iterator[str]:
    """`a.py` and `b.py` of `{a,b}.py`. Other braces stand for themselves."""
    if found := "{" in glob and re.search(_CHOICE, glob):
        for choice in found[1].split(","):
            yield from alternatives(glob[: found.start()] + choice + glob[found.end() :])
    else:
        yield glob


def glob_body(glob: str) -> str:
    """A glob as a regular expression without ends. `*` and `?` stay within a name, `**` crosses directories."""
    if not _WILDCARD.search(glob):
        return re.escape(glob)
    parts = [part for part in re.split(_PARTS, glob) if part]
    ends = [i for i, part in enumerate(parts) if part in _CROSSING] + [len(parts)]
    out = _names(parts[: ends[0]])
    for start, end in pairwise(ends):
        body = _one(parts[start]) + _names(parts[start + 1 : end])
        # where any text may follow, the first place is as good as any: no other is tried
        free = end < len(parts) and (parts[end] == "**" or parts[end - 1].endswith("/"))
        out += f"(?>{body})" if free else body
    return out


def _names(parts: Sequence[str]) -> str:
    """What lies between two `**`; what a `*` follows again needs its first place alone."""
    out, at = "", 0
    while at < len(parts):
        last = next((i for i in range(at + 1, len(parts)) if parts[i] == "*"), at)
        fixed = "".join(map(_one, parts[at + 1 : last]))
        if parts[at] == "*" and fixed:
            out, at = f"{out}(?>[^/]*?{fixed})", last
        else:
            out, at = out + _one(parts[at]), at + 1
    return out


def _one(part: str) -> str:
    """A wildcard, a class (`[!a-c]`, in which only `-` and a leading `!` have a meaning), or plain text."""
    if part in _WILD:
        return _WILD[part]
    if not part.startswith("[") or not re.fullmatch(r"\[[^/]{2,}\]|\[[^]/!]\]", part):
        return re.escape(part)
    inside = part[1:-1]
    head = "^/" if inside.startswith("!") else ""
    return "[" + head + re.sub(r"([\\^&|~\[\]])", r"\\\1", inside.removeprefix("!")) + "]"


def check(glob: str) -> str:
    """The glob. Raises ValueError for one that can match nothing, or means something else than it seems to."""
    if len(glob) > _LONGEST:
        raise ValueError(f"has {glob[:60]!r}...: longer than {_LONGEST:,} characters; write several")
    choices = max(glob.count("{"), sum(1 for _ in islice(alternatives(glob), _CHOICES + 1)))
    if choices > _CHOICES or glob.count("**") > _CROSSINGS:
        raise ValueError(f"has {glob[:60]!r}: at most {_CROSSINGS} `**`, and {_CHOICES} choices; write several")
    if "\\" in glob:
        raise ValueError(f"has {glob!r}: write it with `/`, as on every system: {glob.replace(chr(92), '/')!r}")
    if not glob.strip("./ "):
        raise ValueError(f"has {glob!r}, which matches no file: name files or folders below the root")
    if glob.startswith("../") or "/../" in glob:
        raise ValueError(f"has {glob!r}, which leads out: paths begin at the folder of the configuration")
    try:
        re.compile(glob_body(glob))
    except re.error as error:
        raise ValueError(f"has {glob!r}, which is no pattern: {error}") from None
    return glob


_PLAIN = re.compile(r"\*\.\w+")
_STAR = re.compile(r"[*?\[\]]")
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
        parts = [_STAR.split(glob) for glob in self._other]
        self._heads = tuple({part[0] for part in parts if part[0]})
        self._tails = tuple({part[-1] for part in parts if not part[0]})
        self._below_tails = tuple({_STAR.split(glob)[-1] for glob in self._below})

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
