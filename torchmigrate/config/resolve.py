"""Settle the settings of one run: those of the file, with the command line's on top."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmigrate.base import system
from torchmigrate.base.text import UserError
from torchmigrate.config import config_file
from torchmigrate.config.settings import Runtime, Style
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings
    from torchmigrate.rules.model import Ruleset


def settings_for(
    paths: Sequence[Path],
    *,
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
    exclude: Sequence[str] | None,
    torch: str | None,
    backends: Sequence[str] | None,
    config: Path | None,
    isolated: bool,
    no_cache: bool = False,
    unsafe_fixes: bool | None = None,
    runtime: Runtime | None = None,
    style: Style | None = None,
) -> Settings:
    """Return the file's settings, overridden by the command line's; raises UserError, also for unknown rules."""
    given = flags(select, ignore, torch, backends, unsafe_fixes, runtime, style)
    settings = config_file.load(paths, config, isolated, **given)
    extra = tuple(excluding(_from_root(system.slashed(glob), settings.root)) for glob in exclude or ())
    settings = replace(settings, extend_exclude=settings.extend_exclude + extra, no_cache=no_cache)
    file = config_file.source(paths, config, isolated)[1]
    with pack_errors():
        check_folders(settings, file)
        check_names(settings, file, {"select": select, "ignore": ignore})
    return settings


def flags(
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
    torch: str | None,
    backends: Sequence[str] | None,
    unsafe_fixes: bool | None,
    runtime: Runtime | None,
    style: Style | None,
) -> dict[str, Any]:
    """Return the options that override the file's settings, by field name; None means not given."""
    names = {"select": split_names(select), "ignore": split_names(ignore), "backends": split_names(backends)}
    chosen = {"runtime": runtime.value if runtime else None, "style": style.value if style else None}
    return {**names, **chosen, "torch": torch, "unsafe_fixes": unsafe_fixes}


@contextmanager
def pack_errors() -> Iterator[None]:
    """Turn the error of a rule file into a UserError."""
    try:
        yield
    except PackError as error:
        message, _, help = str(error).partition("\nhelp: ")
        raise UserError(message, help) from None


def cores() -> int:
    """Return the number of processes to use if the user does not say how many."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split_names(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Split `--select a,b --select c` to its names; None if the option is not given."""
    if not values:
        return None
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def excluding(glob: str) -> str:
    """Return a glob of `--exclude` unchanged; raises UserError if it can exclude nothing."""
    from torchmigrate.config.settings import check

    try:
        check("extend-exclude", [glob])
    except ValueError as error:
        what, *help = error.args
        raise UserError(f"--exclude {what}", *(help or ["see `torchmigrate check --help`"])) from None
    return glob


def _from_root(glob: str, root: Path) -> str:
    """Turn a pattern with a slash, typed relative to the current directory, into one relative to the root."""
    if glob.startswith("!") or "/" not in glob.rstrip("/"):
        return glob
    inside = system.relative(os.path.join(os.path.realpath(os.curdir), glob), root)
    return glob if inside.startswith("..") else "/" + inside


def check_folders(settings: Settings, file: Path | None) -> None:
    """Raise UserError if a folder of `rule-paths`, which `file` names, does not exist."""
    for folder in settings.rule_paths:
        if file and not folder.is_dir():
            where = config_file.place(file, ["rule-paths"])
            raise UserError(
                f"{where}: `rule-paths` names {folder}, which is no folder", f"paths are relative to {file.parent}"
            )


def check_names(settings: Settings, file: Path | None, typed: Mapping[str, Sequence[str] | None]) -> None:
    """Raise UserError if the settings name an unknown pack or rule, or leave no rule."""
    named: dict[tuple[str, ...], tuple[str, ...]] = {("select",): settings.select, ("ignore",): settings.ignore}
    named |= {("per-file-ignores", glob): names for glob, names in settings.per_file_ignores.items()}
    if not any(named.values()):
        return
    ruleset = packs.load(settings.rule_paths, cases=False)
    for keys, names in named.items():
        if ruleset.unknown(names):
            known(ruleset, names, f"--{keys[0]}" if typed.get(keys[0]) else _place_of_key(file, keys))
    if not ruleset.selected(settings.select, settings.ignore).rules:
        raise UserError("`select` and `ignore` leave no rule", "`torchmigrate config` shows where both come from")


def _place_of_key(file: Path | None, keys: Sequence[str]) -> str:
    assert file is not None  # names that were not typed come from the file
    return f"{config_file.place(file, keys)}: `{keys[0]}`"


def known(ruleset: Ruleset, names: Sequence[str], where: str = "") -> None:
    """Check that each name is a pack or a rule, else raise UserError; `where` begins the message."""
    for name, near in ruleset.unknown(names).items():
        what = f"{where}: unknown rule or pack `{name}`" if where else f"unknown rule or pack `{name}`"
        raise UserError(what, f"did you mean `{near}`?" if near else "see `torchmigrate rules`")


def schema(name: str) -> bytes:
    """Return the text of a JSON schema: `config`, `pyproject`, `rule` or `catalog`."""
    from importlib import resources  # few commands want a schema

    return resources.files("torchmigrate").joinpath("data", "schemas", f"{name}.json").read_bytes()
