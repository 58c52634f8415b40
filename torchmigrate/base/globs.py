"""Match slash-separated paths with globs: exclusions of the settings, and the files that text rules read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice, pairwise

_PARTS = r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]+\])"
_WILDCARD = r"[*?\[]"
_WILD = {"**/": "(?:.*?/)??", "**": ".*?", "*": "[^/]*?", "?": "[^/]"}
_CHOICE = r"\{([^{}]*,[^{}]*)\}"
_CROSSING = ("**", "**/")
_CHOICES, _CROSSINGS, _LONGEST = 64, 4, 1_000  # limits against patterns that take too long to match
_MOST, _MOST_WILD = 10_000, 100_000  # patterns in one list, and characters of those with wildcards


class Globs:
    """Exclusion patterns, each of which also matches everything below a directory that it matches.

    A pattern without a slash matches any part of a path; one with a slash matches from the root. `names` are the
    directory names that patterns without wildcards exclude at any depth.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        others = [pattern for pattern in self._patterns if re.search(r"[*?\[{]|/.", pattern)]
        self.names = frozenset(pattern.strip("/") for pattern in {*self._patterns}.difference(others))
        self._others = re.compile("|".join(f"(?:{_exclusion_regex(p)})" for p in others)) if others else None

    def match(self, path: str) -> str | None:
        """Return the first pattern that excludes `path` (relative to the root, slash-separated), or None."""
        if self.names.isdisjoint(path.split("/")) and not (self._others and self._others.search(path)):
            return None
        return next(pattern for pattern in self._patterns if re.search(_exclusion_regex(pattern), path))


@cache
def _exclusion_regex(pattern: str) -> str:
    """Return the regular expression that finds `pattern` in a path."""
    return "|".join(_alternative_regex(one) for one in alternatives(pattern))


def _alternative_regex(pattern: str) -> str:
    body = pattern.removeprefix("./").rstrip("/")
    start = "^" if "/" in body else "(?:^|/)"
    return start + glob_body(body.lstrip("/")) + "(?:/|$)"


def alternatives(glob: str) -> Iterator[str]:
    """Expand `{a,b}.py` to `a.py` and `b.py`; braces without a comma stay as they are."""
    if found := "{" in glob and re.search(_CHOICE, glob):
        for choice in found[1].split(","):
            yield from alternatives(glob[: found.start()] + choice + glob[found.end() :])
    else:
        yield glob


def glob_body(glob: str) -> str:
    """Translate a glob to a regular expression without anchors; only `**` crosses directories."""
    if not re.search(_WILDCARD, glob):
        return re.escape(glob)
    parts = [part for part in re.split(_PARTS, glob) if part]
    ends = [i for i, part in enumerate(parts) if part in _CROSSING] + [len(parts)]
    out = _body_between_crossings(parts[: ends[0]])
    for start, end in pairwise(ends):
        body = _part_regex(parts[start]) + _body_between_crossings(parts[start + 1 : end])
        # any text may follow, so the first match is as good as any other: an atomic group prevents backtracking
        free = end < len(parts) and (parts[end] == "**" or parts[end - 1].endswith("/"))
        out += f"(?>{body})" if free else body
    return out


def _body_between_crossings(parts: Sequence[str]) -> str:
    """Translate the parts between two `**`; a `*` before another takes its first match, without backtracking."""
    out, at = "", 0
    while at < len(parts):
        last = next((i for i in range(at + 1, len(parts)) if parts[i] == "*"), at)
        fixed = "".join(map(_part_regex, parts[at + 1 : last]))
        if parts[at] == "*" and fixed:
            out, at = f"{out}(?>[^/]*?{fixed})", last
        else:
            out, at = out + _part_regex(parts[at]), at + 1
    return out


def _part_regex(part: str) -> str:
    """Translate a wildcard, a class (`[!a-c]`, where only `-` and a leading `!` are special), or plain text."""
    if part in _WILD:
        return _WILD[part]
    if not part.startswith("[") or not re.fullmatch(r"\[[^/]{2,}\]|\[[^]/!]\]", part):
        return re.escape(part)
    inside = part[1:-1]
    head = "^/" if inside.startswith("!") else ""
    return "[" + head + re.sub(r"([\\^&|~\[\]])", r"\\\1", inside.removeprefix("!")) + "]"


def check(glob: str) -> str:
    """Return the glob; raises ValueError if it matches nothing, is too complex, or means not what it seems to."""
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


def check_all(given: Sequence[str]) -> None:
    """Raise ValueError if globs are too many or too long together; `check` looks at each of them."""
    short = [glob for glob in given if len(glob) <= _LONGEST]
    many = sum(1 for _ in islice((one for glob in short for one in alternatives(glob)), _MOST + 1)) > _MOST
    if many or sum(len(glob) for glob in short if re.search(_WILDCARD, glob)) > _MOST_WILD:
        what = f"{_MOST:,} patterns (`{{a,b}}` is two), or {_MOST_WILD:,} characters of patterns with `*`, `?` or `[`"
        raise ValueError(f"has more than {what}: name folders instead of files")


_PLAIN = re.compile(r"\*\.\w+")
_STAR = re.compile(r"[*?\[\]]")
# generated files that the globs of text rules (`*.yml`, `*.yaml`, `*.json`) would match
_GENERATED = ("conda-lock.yml", "pnpm-lock.yaml", "package-lock.json")


class Names:
    """Match the end of a path with many globs, as fast as every file of a tree needs it."""

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
        """Return whether the path ends with one of the globs that name a directory."""
        starts = [0, *(m.end() for m in re.finditer("/", path))]
        return any(self.below.match(path, start) for start in starts)

    @cached_property
    def other(self) -> re.Pattern[str]:
        """Return the expression for globs of file names that are more than a suffix."""
        return _end_regex(self._other)

    @cached_property
    def below(self) -> re.Pattern[str]:
        """Return the expression for globs that contain a slash."""
        return _end_regex(self._below)


def _end_regex(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(map(glob_body, globs))})\Z")
