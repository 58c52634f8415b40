"""What a run would go by, and from where: settings, packs, the helper, and what holds for single files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchmigrate import config, files, pack, project
from torchmigrate import gather as facts
from torchmigrate.config import Settings
from torchmigrate.in_force import helper, one_file
from torchmigrate.in_force.helper import Helper
from torchmigrate.in_force.one_file import OneFile
from torchmigrate.in_force.settings import Setting, in_force, unread
from torchmigrate.rule import Ruleset
from torchmigrate.table import table


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
    start = config.common_parent(asked.paths)
    root, file = config.source(asked.paths, asked.config, asked.isolated)
    everything = pack.load(settings.rule_paths, cases=False)
    ruleset = everything.selected(settings.select, settings.ignore)
    rules = table(ruleset)
    project_root = facts.project_root(asked.paths)
    found = files.discover([project_root], settings, rules.texts)
    python = [str(f.path) for f in found if f.skipped_reason is None and f.error is None and not f.text]
    floor = None if settings.torch else project.torch_floor(project_root)
    said = in_force(settings, file, asked.typed, floor)
    read = {str(f.path) for f in found if f.skipped_reason is None and f.error is None}
    named = [Path(os.path.realpath(path)) for path in asked.paths if not path.is_dir()]
    return InForce(
        root=root,
        file=file,
        why=_why(asked, file),
        settings=said,
        folders=[*_folders(settings, everything, ruleset)],
        helper=helper.of(settings, python, rules),
        files=[one_file.of(path, settings, said, ruleset, path.as_posix() in read) for path in named],
        notes=[
            *unread(start, root, file, _option(asked), read),
            *(_idle(settings, read) if project_root == root else ()),
        ],
    )


def _option(asked: Asked) -> str:
    return "--isolated" if asked.isolated else "--config" if asked.config else ""


def _why(asked: Asked, file: Path | None) -> str:
    if asked.isolated:
        return "--isolated: no settings from files"
    if asked.config:
        return "--config"
    if file is None:
        return "no pyproject.toml here or above"
    return "the nearest pyproject.toml" + ("" if config.has_settings(file) else "; it has no [tool.torchmigrate]")


def _folders(settings: Settings, everything: Ruleset, ruleset: Ruleset) -> Iterator[Folder]:
    for number, path in enumerate(pack.roots(settings.rule_paths)):
        mine = [rule for rule in everything.rules.values() if rule.path.parent.parent == path]
        on = sum(rule.id in ruleset.rules for rule in mine)
        yield Folder(path, number == 0, Counter(rule.pack for rule in mine), on)


def _idle(settings: Settings, read: set[str]) -> Iterator[str]:
    """Entries of `per-file-ignores` that speak of no file: a mistake in a glob is else not seen."""
    spoken = {glob for path in read if settings.per_file_ignores for glob in settings.ignores_of(Path(path))}
    for glob in settings.per_file_ignores:
        if glob not in spoken:
            yield f"`per-file-ignores` has {glob!r}, and no file that is read matches it"
