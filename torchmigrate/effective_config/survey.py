"""What a run would go by, and from where: settings, packs, the helper, and what holds for single files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchmigrate.base.errors import UserError
from torchmigrate.config import config_file
from torchmigrate.config.settings import Settings
from torchmigrate.effective_config import one_file
from torchmigrate.effective_config.one_file import OneFile
from torchmigrate.effective_config.settings import Setting, in_force, unread
from torchmigrate.project import builder, discovery, helper_file, project_helper
from torchmigrate.project import builder as facts
from torchmigrate.project.helper_file import runtime_source
from torchmigrate.rewriting.dispatch import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Ruleset


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
        own = project_helper.load(settings, files)
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
