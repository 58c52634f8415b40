"""Each key of the settings with its value, or its values, and where they come from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torchmigrate.base.text import UserError
from torchmigrate.config import config_file
from torchmigrate.config.keys import KEYS
from torchmigrate.config.settings import Settings
from torchmigrate.project import builder, discovery, helper_file
from torchmigrate.project import builder as facts
from torchmigrate.project.helper_file import runtime_source
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Ruleset
from torchmigrate.surveys import effective_file
from torchmigrate.surveys.effective_file import OneFile
from torchmigrate.vcs import git_tree

DEFAULT, FILE, OPTION, INFERRED = "default", "file", "option", "inferred"


@dataclass(frozen=True, slots=True)
class Part:
    """A value, or one entry of a table, and its origin: one of the four above; `at` is `file:line` or the option."""

    value: Any
    origin: str
    at: str = ""
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A key and what is in force of it, in the order in which it counts."""

    key: str
    parts: Sequence[Part]


def in_force(
    settings: Settings, file: Path | None, typed: Mapping[str, object], floor: tuple[str, str] | None
) -> list[Setting]:
    """All keys. `typed`: what the command line gave, by field name; `floor`: the torch that was inferred."""
    there = config_file.read(file) if file else {}
    at = config_file.places(file) if file else None
    found = []
    for key in KEYS:
        name = key.replace("-", "_")
        value = getattr(settings, name)
        if key != "exclude" and typed.get(name) is not None:  # --exclude is for extend-exclude, which it adds to
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
    """The file's exclusions, and those that the command line adds."""
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
    """Where an exclusion was written."""
    for setting in settings:
        for part in setting.parts if setting.key in ("exclude", "extend-exclude") else ():
            if glob in part.value:
                return part.at or part.origin
    return ""


def unread(start: Path, root: Path, file: Path | None, option: str, read: Iterable[str]) -> Iterator[str]:
    """Files with settings that do not count for a run over `start`, tables that nothing reads, a file from outside.
    `option`: which of the command line's chose the file, if one did."""
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


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line: what was typed, by field name of Settings (None: not given), and which file it chose."""

    paths: Sequence[Path]
    config: Path | None
    isolated: bool
    typed: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of packs: how many rules each pack has, and how many of them speak."""

    path: Path
    builtin: bool
    packs: Mapping[str, int]
    on: int


@dataclass(frozen=True, slots=True)
class InForce:
    """All of it. `file` is None where no settings are read; `why` says how that came."""

    root: Path
    file: Path | None
    why: str
    settings: Sequence[Setting]
    folders: Sequence[Folder]
    helper: Helper
    files: Sequence[OneFile] = ()
    notes: Sequence[str] = field(default_factory=list)


def gather(asked: Asked, settings: Settings) -> InForce:
    """For the command line that gave these settings. Raises UserError, PackError."""
    start = config_file.common_parent(asked.paths)
    root, file = config_file.source(asked.paths, asked.config, asked.isolated)
    everything = packs.load(settings.rule_paths, cases=False)
    ruleset = everything.selected(settings.select, settings.ignore)
    rules = dispatch_table(ruleset)
    project_root = facts.project_root(asked.paths)
    found = discovery.discover([project_root], settings, rules.texts)
    python = [str(f.path) for f in found if f.skipped_reason is None and f.error is None and not f.text]
    floor = None if settings.torch else builder.torch_floor(project_root)
    said = in_force(settings, file, asked.typed, floor)
    read = {str(f.path) for f in found if f.skipped_reason is None and f.error is None}
    named = [Path(os.path.realpath(path)) for path in asked.paths if not path.is_dir()]
    return InForce(
        root=root,
        file=file,
        why=_why(asked, file),
        settings=said,
        folders=[*_folders(settings, everything, ruleset)],
        helper=helper_of(settings, python, rules),
        files=[effective_file.of(path, settings, said, ruleset, path.as_posix() in read) for path in named],
        notes=[
            *unread(start, root, file, _command_line_option(asked), read),
            *(_idle(settings, read) if project_root == root else ()),
        ],
    )


def _command_line_option(asked: Asked) -> str:
    return "--isolated" if asked.isolated else "--config" if asked.config else ""


def _why(asked: Asked, file: Path | None) -> str:
    if asked.isolated:
        return "--isolated: no settings from files"
    if asked.config:
        return "--config"
    if file is None:
        return "no pyproject.toml here or above"
    return "the nearest pyproject.toml" + ("" if config_file.has_settings(file) else "; it has no [tool.torchmigrate]")


def _folders(settings: Settings, everything: Ruleset, ruleset: Ruleset) -> Iterator[Folder]:
    for number, path in enumerate(packs.roots(settings.rule_paths)):
        mine = [rule for rule in everything.rules.values() if rule.path.parent.parent == path]
        on = sum(rule.id in ruleset.rules for rule in mine)
        yield Folder(path, number == 0, Counter(rule.pack for rule in mine), on)


def _idle(settings: Settings, read: set[str]) -> Iterator[str]:
    """Entries of `per-file-ignores` that speak of no file: a mistake in a glob is else not seen."""
    spoken = {glob for path in read if settings.per_file_ignores for glob in settings.ignores_of(Path(path))}
    for glob in settings.per_file_ignores:
        if glob not in spoken:
            yield f"`per-file-ignores` has {glob!r}, and no file that is read matches it"


VENDORED, PACKAGED, OWN = "vendored", "packaged", "own"


@dataclass(frozen=True, slots=True)
class Helper:
    """`files`: where it lies, and whether that is what would be written today. `error`: why it cannot be used."""

    kind: str
    name: str
    files: Mapping[Path, bool] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def helper_of(settings: Settings, files: Sequence[str], rules: DispatchTable) -> Helper:
    """The helper for a project with these files."""
    try:
        own = helper_file.load(settings, files)
    except UserError as error:
        return Helper(OWN, settings.helper or "", error=f"{error.message}; {error.help}".removesuffix("; "))
    if own:
        return Helper(OWN, own.name, {Path(own.path): True}, own.functions)
    if settings.runtime == "package":
        return Helper(PACKAGED, helper_file.PACKAGED)
    name = helper_file.helper_name(files, builder.telling(files, rules.has_work))
    content = runtime_source()
    there = [
        Path(f) for f in files if f.endswith((f"/{name}.py", f"/{name}/__init__.py")) and helper_file.is_ours(Path(f))
    ]
    return Helper(VENDORED, name, {path: path.read_bytes() == content for path in there})
