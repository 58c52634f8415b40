"""Find where each setting of a run comes from: the default, a file, an option, or inference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torchmigrate.config import config_file
from torchmigrate.config.keys import KEYS
from torchmigrate.config.settings import Settings
from torchmigrate.vcs import git_tree

DEFAULT, FILE, OPTION, INFERRED = "default", "file", "option", "inferred"


@dataclass(frozen=True, slots=True)
class Part:
    """A value, or one entry of a table, with its origin.

    `origin`: DEFAULT, FILE, OPTION or INFERRED. `at`: `file:line` or the option. `entry`: the table's key.
    """

    value: Any
    origin: str
    at: str = ""
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A key with its effective values, in order of precedence."""

    key: str
    parts: Sequence[Part]


def in_force(
    settings: Settings, file: Path | None, typed: Mapping[str, object], floor: tuple[str, str] | None
) -> list[Setting]:
    """Return all keys with their values and origins.

    `typed`: what the command line gave, by field name; `floor`: the inferred torch version and where it was read.
    """
    there = config_file.read(file) if file else {}
    at = config_file.places(file) if file else None
    found = []
    for key in KEYS:
        name = key.replace("-", "_")
        value = getattr(settings, name)
        # --exclude adds to extend-exclude, it does not set exclude
        if key != "exclude" and typed.get(name) is not None:
            parts = [Part(value, OPTION, _option(key, value))]
        elif at and name in there:
            parts = [*_from_file(key, there[name], at)]
        elif key == "torch" and floor:
            parts = [Part(floor[0], INFERRED, floor[1])]
        else:
            parts = [Part(value, DEFAULT)]
        found.append(Setting(key, [*_split(parts, value)] if key == "extend-exclude" else parts))
    return found


def _split(parts: Sequence[Part], value: Sequence[str]) -> Iterator[Part]:
    """Split `extend-exclude` into the file's exclusions and those that the command line adds."""
    own = parts[0].value if parts[0].origin == FILE else ()
    if own or not value:
        yield Part(own, parts[0].origin, parts[0].at)
    if more := tuple(value[len(own) :]):
        yield Part(more, OPTION, "--exclude")


def _from_file(key: str, value: Any, at: config_file.Places) -> Iterator[Part]:
    if isinstance(value, dict) and value:
        yield from (Part(item, FILE, at((key, entry)), entry) for entry, item in value.items())
    else:
        yield Part(value, FILE, at((key,)))


def _option(key: str, value: object) -> str:
    return f"--no-{key}" if value is False else f"--{key}"


def origin_of(settings: Sequence[Setting], glob: str) -> str:
    """Return where an exclusion was written."""
    for setting in settings:
        for part in setting.parts if setting.key in ("exclude", "extend-exclude") else ():
            if glob in part.value:
                return part.at or part.origin
    return ""


def unread(start: Path, root: Path, file: Path | None, option: str, read: Iterable[str]) -> Iterator[str]:
    """Yield a note for each settings file or table that a run over `start` does not read, or reads unexpectedly.

    `root` and `file`: where settings are read from; `option`: the command-line option that chose `file`, or ""; `read`:
    the paths of the files that the run reads.
    """
    below = {directory for path in read for directory in Path(path).parents if directory.is_relative_to(start)}
    here = file.resolve() if file else None
    for directory in (*reversed(start.parents), *sorted(below | {start})):
        other = directory / "pyproject.toml"
        if other != here and other.is_file() and config_file.has_settings(other):
            inner = directory in below - {start}
            why = "it counts where all paths lie below it" if inner else "the nearest one counts, without cascade"
            yield f"{other} has settings, too, that this run does not read: {f'see {option}' if option else why}"
    if file is None:
        return
    for name in config_file.tables(file):
        if name != "tool.torchmigrate" and get_close_matches(name.removeprefix("tool."), ["torchmigrate"], cutoff=0.9):
            yield f"{file} has [{name}], which nothing reads: the table is [tool.torchmigrate]"
    repository = None if option else git_tree.repository(start)
    if repository and repository.top != root and repository.top.is_relative_to(root):
        yield f"{file} lies above the git repository, {repository.top}"
