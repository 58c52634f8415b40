"""Guard the user's own changes: from being overwritten, and from getting into a commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base.text import UserError, visible
from torchmigrate.diagnostics.finding import Changed

if TYPE_CHECKING:
    from torchmigrate.apply.commits import Target
    from torchmigrate.cli.selection import Request
    from torchmigrate.vcs.git_tree import Dirty

_LISTED = 20  # files that a message names


def guard(changes: Sequence[Changed], request: Request, target: Target | None = None) -> None:
    """Refuse to overwrite changes that git could not restore, or to commit changes of the user."""
    from torchmigrate.vcs import git_tree

    if target:
        refuse_changed(changes, target)
    elif not request.allow_dirty:
        contents: dict[Path, bytes | None] = {change.path: change.before for change in changes if not change.new}
        _refuse_silence(git_tree.unanswered(list(contents)))
        _refuse_dirty(git_tree.lost(contents))


def _refuse_silence(silent: tuple[Path, str] | None) -> None:
    if silent:
        what = f"git tells nothing of {visible(str(silent[0]))}, so nobody knows what git could restore: {silent[1]}"
        raise UserError(what, "settle that (`git status` there says more), or pass --allow-dirty")


def named(dirty: Sequence[Dirty]) -> str:
    """Return a line for each file, up to a limit."""
    here = Path(os.path.realpath(os.curdir))
    near = (os.path.relpath(d.path, here) if d.path.is_relative_to(here) else str(d.path) for d in dirty[:_LISTED])
    names = [visible(name) for name in near]
    width = max(map(len, names)) + 3
    rows = [f"\n  {name:<{width}}({d.why})" for name, d in zip(names, dirty, strict=False)]
    more = [f"\n  and {len(dirty) - _LISTED} more"] if len(dirty) > _LISTED else []
    return "".join([*rows, *more])


def _refuse_dirty(dirty: Sequence[Dirty]) -> None:
    if not dirty:
        return
    one = len(dirty) == 1
    what = f"{len(dirty)} file{' has' if one else 's have'} changes git could not restore; torchmigrate would overwrite"
    raise UserError(f"{what} {'it' if one else 'them'}{named(dirty)}", "commit or stash them, or pass --allow-dirty")


def refuse_changed(changes: Sequence[Changed], target: Target) -> None:
    """Refuse to commit files that have changes of the user, staged or not."""
    contents = {Path(os.path.realpath(change.path)): None if change.new else change.before for change in changes}
    dirty = target.repository.lost(contents, staged=True)
    if dirty:
        one = len(dirty) == 1
        what = f"{len(dirty)} file{' has' if one else 's have'} changes of yours, which would get into the commits"
        raise UserError(f"{what}{named(dirty)}", "commit or stash them first")
