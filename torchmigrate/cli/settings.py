"""The settings of one run: the file's, with the command line's on top; and the errors of the rules that they name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate import config as config_
from torchmigrate.errors import UserError

if TYPE_CHECKING:
    from torchmigrate.cli.commands import Runtime, Style
    from torchmigrate.config import Settings
    from torchmigrate.rule import Ruleset


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
    """The file's settings with the command line's on top. Raises UserError where they name no rule that there is."""
    settings = config_.load(
        paths,
        config,
        isolated,
        select=split_names(select),
        ignore=split_names(ignore),
        torch=torch,
        backends=split_names(backends),
        unsafe_fixes=unsafe_fixes,
        runtime=runtime.value if runtime else None,
        style=style.value if style else None,
    )
    extra = tuple(_from_root(glob, settings.root) for glob in exclude or ())
    settings = replace(settings, extend_exclude=settings.extend_exclude + extra, no_cache=no_cache)
    with pack_errors():
        _check_names(settings)
    return settings


@contextmanager
def pack_errors() -> Iterator[None]:
    """A rule file's error is the user's to mend."""
    from torchmigrate.pack import PackError

    try:
        yield
    except PackError as error:
        message, _, help = str(error).partition("\nhelp: ")
        raise UserError(message, help) from None


def cores() -> int:
    """Processes to use where nobody says how many."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split_names(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """`--select a,b --select c`."""
    if not values:
        return None
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def _from_root(glob: str, root: Path) -> str:
    """A pattern with a slash is typed relative to the current directory and matched from the root."""
    if "/" not in glob.rstrip("/"):
        return glob
    inside = os.path.relpath(os.path.join(os.path.realpath(os.curdir), glob), root).replace(os.sep, "/")
    return glob if inside.startswith("..") else "/" + inside


def _check_names(settings: Settings) -> None:
    """Names that no pack or rule has. Loads the rules only where names are given."""
    named = [*settings.select, *settings.ignore, *(n for names in settings.per_file_ignores.values() for n in names)]
    if not named:
        return
    from torchmigrate import pack

    known(pack.load(settings.rule_paths, cases=False), named)


def known(ruleset: Ruleset, names: Sequence[str]) -> None:
    """Raises UserError for a name that no pack or rule has."""
    for name, near in ruleset.unknown(names).items():
        raise UserError(
            f"unknown rule or pack `{name}`", f"did you mean `{near}`?" if near else "see `torchmigrate rules`"
        )
