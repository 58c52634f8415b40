"""Read the list of repositories: lines of a path or a git URL, maybe `@REV`, maybe a name, maybe `# ...`."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.base.text import UserError

_TOKEN = re.compile(r'\s*(?:"([^"]*)"(?=\s|$)|([^\s"#]\S*)|(#.*))')
_URL = re.compile(r"(?P<url>(?P<scheme>[A-Za-z][\w+.-]*)://[^/]*/.+?)(?:@(?P<rev>[^@]+))?")
_SCP = re.compile(r"(?P<url>(?:[\w.-]+@)?[\w.-]{2,}:(?!//)[^@]+)(?:@(?P<rev>[^@]+))?")
_SCHEMES = ("file", "git", "http", "https", "ssh")
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_OURS = {"report.json", "report.md", "report.html"}


@dataclass(frozen=True, slots=True)
class Source:
    """A repository or a folder to migrate, at `rev` ("" is the current state); `place` (file:line) named it."""

    location: str
    rev: str
    name: str
    is_url: bool
    place: str

    @property
    def shown(self) -> str:
        """The source as reports may show it, without a password."""
        return masked(self.location) + (f"@{self.rev}" if self.rev else "")


def masked(text: str) -> str:
    """Return the text with user names and passwords removed from URLs."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


def read(file: Path, text: str) -> tuple[list[Source], list[str]]:
    """Return the sources in order, paths relative to `file`, and notes on duplicates; raises UserError."""
    found: dict[tuple[str, str], Source] = {}
    notes = []
    named: set[tuple[str, str]] = set()
    for source, explicit in _lines(file, text):
        key = source.location, source.rev
        if key in found:
            notes.append(f"{source.place}: {source.shown} stands there already ({found[key].place})")
            continue
        found[key] = source
        if explicit:
            named.add(key)
    if not found:
        raise UserError(f"{file}: names no repository", "one path or git URL on each line")
    return _distinct(list(found.values()), {found[key].place for key in named}), notes


def _lines(file: Path, text: str) -> Iterator[tuple[Source, bool]]:
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{file}:{number}"
        words = _words(line, place)
        if len(words) > 2:
            raise UserError(f"{place}: more than a source and a name: {line.strip()}", "quote what holds spaces")
        if words:
            name = words[1] if len(words) == 2 else ""
            if name and (not _NAME.fullmatch(name) or name.casefold() in _OURS):
                raise UserError(f"{place}: `{name}` cannot be a name", "use letters, digits, `.`, `_` and `-`")
            yield _source(words[0], name, place, file.parent), bool(name)


def _words(line: str, place: str) -> list[str]:
    words, at, line = [], 0, line.rstrip()
    while at < len(line):
        found = _TOKEN.match(line, at)
        if found is None or "\0" in line:
            raise UserError(f"{place}: cannot be read: {line.strip()}", 'quotes go around a whole word: "a path" name')
        if found[3] is not None:
            break
        words.append(found[1] if found[1] is not None else found[2])
        at = found.end()
    return words


def _source(word: str, name: str, place: str, folder: Path) -> Source:
    if not word or word.startswith("-"):
        raise UserError(f"{place}: `{word}` is neither a path nor a git URL")
    if url := _URL.fullmatch(word):
        if url["scheme"].lower() not in _SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise UserError(f"{place}: `{url['scheme']}://` is not a way to take a repository", f"known: {known}")
        source = Source(url["url"], url["rev"] or "", name, True, place)
    elif "://" in word:
        raise UserError(f"{place}: `{masked(word)}` is not a whole URL", "https://HOST/OWNER/NAME")
    else:
        source = _path(word, name, place, folder)
    if source.rev.startswith("-") or re.search(r"[\s:^~?*\[\\]|\.\.", source.rev):
        raise UserError(f"{place}: `{source.rev}` cannot be a revision", "a branch, a tag or a commit follows the `@`")
    return source if name else replace(source, name=_derived(source.location))


def _path(word: str, name: str, place: str, folder: Path) -> Source:
    """Return the source for a word that is no URL; an existing path wins over `host:path` and `path@REV`."""
    given = folder / os.path.expanduser(word)
    if os.path.lexists(given):
        return Source(_absolute(given), "", name, False, place)
    if scp := _SCP.fullmatch(word):
        return Source(scp["url"], scp["rev"] or "", name, True, place)
    path, at, rev = word.rpartition("@")
    if at and path and rev and os.path.lexists(given := folder / os.path.expanduser(path)):
        return Source(_absolute(given), rev, name, False, place)
    # the path may exist on a worker's machine
    return Source(_absolute(folder / os.path.expanduser(word)), "", name, False, place)


def _absolute(path: Path) -> str:
    return os.path.abspath(path)


def _parts(location: str) -> list[str]:
    return [part for part in re.split(r"[/\\:]", location.rstrip("/")) if part]


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name.removesuffix(".git")).lstrip(".-") or "repository"


def _derived(location: str) -> str:
    return _clean(_parts(masked(location))[-1]) if _parts(location) else "repository"


def _distinct(sources: Sequence[Source], explicit: set[str]) -> list[Source]:
    """Make names distinct, ignoring case, by the parent folder, except those in `explicit` places; raises UserError."""
    counts = Counter(source.name.casefold() for source in sources)
    out: list[Source] = []
    taken: dict[str, Source] = {}
    for source in sources:
        parts = _parts(masked(source.location))
        again = counts[source.name.casefold()] > 1 or source.name.casefold() in _OURS
        if again and source.place not in explicit and len(parts) > 1:
            tail = f"@{source.rev}" if source.rev and _same_place(source, sources) else ""
            source = replace(source, name=_clean(f"{parts[-2]}-{source.name}{tail}"))
        if other := taken.get(source.name.casefold()):
            raise UserError(
                f"{source.place}: `{source.name}` is the name of {other.shown} already ({other.place})",
                "write another name behind one of them",
            )
        taken[source.name.casefold()] = source
        out.append(source)
    return out


def _same_place(source: Source, sources: Sequence[Source]) -> bool:
    return sum(other.location == source.location for other in sources) > 1
