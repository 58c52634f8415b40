"""Collect the settings in force: where each comes from, which folders and files it concerns, what one file gets."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torchmigrate.base import file_io
from torchmigrate.base.system import syntax_tree
from torchmigrate.base.text import UserError
from torchmigrate.config import config_file
from torchmigrate.config.keys import KEYS
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics import suppressions
from torchmigrate.project import context, discovery, helper_file
from torchmigrate.project import context as facts
from torchmigrate.project.helper_parts import is_current
from torchmigrate.project.import_graph import module_stem
from torchmigrate.project.packaging import torch_floor
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Ruleset
from torchmigrate.source import encoding, notebook, text_file
from torchmigrate.source.encoding import HELPER_MARK
from torchmigrate.vcs import git_tree

DEFAULT, FILE, OPTION, INFERRED = "default", "file", "option", "inferred"


@dataclass(frozen=True, slots=True)
class Part:
    """A value, or a table's `entry`, with its origin (DEFAULT, FILE, OPTION, INFERRED) and `file:line` or option."""

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

    `typed` is what the command line gave, by field name; `floor` the inferred torch version and where it was read.
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
    """Yield a note for each settings file or table that a run does not read, or reads unexpectedly.

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


@dataclass(frozen=True, slots=True)
class Asked:
    """The settings asked for on the command line: `typed` by field name (None: not given), and the file to read."""

    paths: Sequence[Path]
    config: Path | None
    isolated: bool
    typed: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of rule packs: how many rules each pack has, and how many rules are selected (`on`)."""

    path: Path
    builtin: bool
    packs: Mapping[str, int]
    on: int


@dataclass(frozen=True, slots=True)
class InForce:
    """The whole effective configuration; `why` explains the choice of `file` (None: no file is read)."""

    root: Path
    file: Path | None
    why: str
    settings: Sequence[Setting]
    folders: Sequence[Folder]
    helper: Helper
    files: Sequence[OneFile] = ()
    notes: Sequence[str] = field(default_factory=list)


def gather(asked: Asked, settings: Settings) -> InForce:
    """Collect the effective configuration for a command line and its settings; raises UserError, PackError."""
    start = config_file.common_parent(asked.paths)
    root, file = config_file.source(asked.paths, asked.config, asked.isolated)
    everything = packs.load(settings.rule_paths, cases=False)
    ruleset = everything.selected(settings.select, settings.ignore)
    rules = dispatch_table(ruleset)
    project_root = facts.project_root(asked.paths)
    found = discovery.discover([project_root], settings, rules.texts)
    python = [str(f.path) for f in found if f.skipped_reason is None and f.error is None and not f.text]
    floor = None if settings.torch else torch_floor(project_root)
    effective = in_force(settings, file, asked.typed, floor)
    read = {str(f.path) for f in found if f.skipped_reason is None and f.error is None}
    named = [Path(os.path.realpath(path)) for path in asked.paths if not path.is_dir()]
    return InForce(
        root=root,
        file=file,
        why=_explain_file_choice(asked, file),
        settings=effective,
        folders=[*_folders(settings, everything, ruleset)],
        helper=helper_of(settings, python, rules),
        files=[describe_file(path, settings, effective, ruleset, path.as_posix() in read) for path in named],
        notes=[
            *unread(start, root, file, _command_line_option(asked), read),
            *(_unmatched_ignores(settings, read) if project_root == root else ()),
        ],
    )


def _command_line_option(asked: Asked) -> str:
    return "--isolated" if asked.isolated else "--config" if asked.config else ""


def _explain_file_choice(asked: Asked, file: Path | None) -> str:
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


def _unmatched_ignores(settings: Settings, read: set[str]) -> Iterator[str]:
    """Yield a note for each `per-file-ignores` glob that matches no file: the glob may be mistyped."""
    spoken = {glob for path in read if settings.per_file_ignores for glob in settings.ignores_of(Path(path))}
    for glob in settings.per_file_ignores:
        if glob not in spoken:
            yield f"`per-file-ignores` has {glob!r}, and no file that is read matches it"


VENDORED, PACKAGED, OWN = "vendored", "packaged", "own"


@dataclass(frozen=True, slots=True)
class Helper:
    """The helper that rewritten code imports: its files, each with whether it is up to date, or an error."""

    kind: str
    name: str
    files: Mapping[Path, bool] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def helper_of(settings: Settings, files: Sequence[str], rules: DispatchTable) -> Helper:
    """Return the helper for a project with these Python files."""
    try:
        own = helper_file.load(settings, files)
    except UserError as error:
        return Helper(OWN, settings.helper or "", error=f"{error.message}; {error.help}".removesuffix("; "))
    if own:
        return Helper(OWN, own.name, {Path(own.path): True}, own.functions)
    if settings.runtime == "package":
        return Helper(PACKAGED, helper_file.PACKAGED)
    name = helper_file.helper_name(files, context.code_of_other_files(files, rules.has_work))
    there = [Path(f) for f in files if os.path.basename(module_stem(f)) == name and helper_file.is_ours(Path(f))]
    return Helper(VENDORED, name, {path: is_current(file_io.read(path)) for path in there})


@dataclass(frozen=True, slots=True)
class OneFile:
    """The effective configuration of one file.

    `read`: "yes" or "no" with the reason; `is_read`: that as a flag. `ignores`: the `per-file-ignores` globs that match
    the file, with entries and place. `on` and `off`: rules that these leave on or switch off. `asleep`: rules whose
    fixes are unsafe in this file, because it contains none of their prefilter literals.
    """

    path: Path
    is_read: bool
    read: str
    ignores: Mapping[str, tuple[Sequence[str], str]] = field(default_factory=dict)
    on: Sequence[str] = ()
    off: Sequence[str] = ()
    asleep: Sequence[str] = ()


def describe_file(
    path: Path, settings: Settings, effective: Sequence[Setting], ruleset: Ruleset, listed: bool
) -> OneFile:
    """Describe one file (`listed`: a run over the project reads it too); raises UserError if it does not exist."""
    if not path.is_file():
        raise UserError(f"{os.path.relpath(path)}: no such file or directory", "name a file or a folder of a project")
    if glob := discovery.exclusion(path, settings):
        return OneFile(path, False, f"no: excluded by `{glob}` ({origin_of(effective, glob)})")
    entries = settings.ignores_of(path)
    places = {p.entry: p.at for setting in effective if setting.key == "per-file-ignores" for p in setting.parts}
    ignores = {glob: (names, places.get(glob, "")) for glob, names in entries.items()}
    rules = dispatch_table(ruleset)
    is_text = not path.name.endswith(discovery.SUFFIXES) and bool(rules.texts.readable.match(path.as_posix()))
    try:
        raw = file_io.read(path)
    except OSError as error:
        return OneFile(path, False, f"no: {(error.strerror or str(error)).lower()}")
    speaking = [*_rules_for(path, rules, ruleset, is_text)]
    on = [name for name in speaking if not {name, name.partition("/")[0]} & set(settings.ignored_in(path))]
    try:
        read, text = _read_text(path, raw, rules, is_text)
    except (ValueError, SyntaxError, RecursionError) as error:  # ValueError: an unreadable source or notebook
        return OneFile(path, False, f"no: {_describe_error(error)}", ignores, on)
    if read.startswith("yes") and not listed:
        read += "; only where it is named: git ignores it, or it lies elsewhere"
    asleep = () if is_text else sorted(rules.asleep(text) & {*on})
    off = [name for name in speaking if name not in on]
    return OneFile(path, read.startswith("yes"), read, ignores, on, off, asleep)


def _describe_error(error: Exception) -> str:
    return f"line {error.lineno}: {encoding.syntax_message(error)}" if isinstance(error, SyntaxError) else str(error)


def _rules_for(path: Path, rules: DispatchTable, ruleset: Ruleset, is_text: bool) -> Iterator[str]:
    if is_text:
        yield from (r.rule.id for r in rules.texts.rules if r.names.match(path.as_posix()))
    else:
        yield from (rule.id for rule in ruleset.rules.values() if not rule.patterns)


def _read_text(path: Path, raw: bytes, rules: DispatchTable, is_text: bool) -> tuple[str, bytes]:
    """Return what becomes of the file, and its text as rules see it; raises what parsing raises."""
    if is_text:
        decoded = text_file.decode(raw)
        if decoded is None:
            return "no: not a text file", raw
        hidden = suppressions.find_in_text(text_file.TextFile(path.name, decoded))
        return _skipped_by_comment(raw) if hidden.skip_file else "yes", raw
    if raw.startswith(HELPER_MARK):
        return "no: a helper that torchmigrate wrote", raw
    text = notebook.split(raw).source if path.suffix == ".ipynb" else encoding.decode(raw)
    tree = syntax_tree(text.utf8)
    if suppressions.find(text, tree).skip_file:
        return _skipped_by_comment(text.utf8), text.utf8
    return "yes" if rules.has_work(raw) else "yes, and it holds nothing that a rule looks for", text.utf8


def _skipped_by_comment(raw: bytes) -> str:
    found = re.search(rb"torchmigrate:\s*skip-file", raw)
    line = raw.count(b"\n", 0, found.start()) + 1 if found else 1
    return f"no: `torchmigrate: skip-file` on line {line}"
