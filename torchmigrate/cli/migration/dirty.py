"""What stands between a plan and the files: changes that would be lost, or get into a commit."""

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

_LISTED = 20  # files that the dirty guard names


def guard(changes: Sequence[Changed], request: Request, target: Target | None = None) -> None:
    """Refuse to write over what git could not give back, or to commit what is the user's."""
    from torchmigrate.vcs import git_tree

    if target:
        refuse_changed([change.path for change in changes], target)
    elif not request.allow_dirty:
        _refuse_dirty(git_tree.dirty([change.path for change in changes if not change.new]))


def named(dirty: Sequence[Dirty]) -> str:
    """A line for each file, the first of many."""
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


def refuse_changed(paths: Sequence[Path], target: Target) -> None:
    """A file with changes of the user's, staged or not, cannot be committed without them."""
    dirty = target.repository.dirty([Path(os.path.realpath(path)) for path in paths], staged=True)
    if dirty:
        one = len(dirty) == 1
        what = f"{len(dirty)} file{' has' if one else 's have'} changes of yours, which would get into the commits"
        raise UserError(f"{what}{named(dirty)}", "commit or stash them first")
