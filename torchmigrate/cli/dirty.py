"""What stands between a plan and the files: changes that would be lost, or get into a commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.edits import Changed
from torchmigrate.errors import UserError
from torchmigrate.visible import visible

if TYPE_CHECKING:
    from torchmigrate.cli.migrate import Request
    from torchmigrate.commits import Target
    from torchmigrate.vcs import Dirty

_LISTED = 20  # files that the dirty guard names


def guard(changes: Sequence[Changed], request: Request, target: Target | None = None) -> None:
    """Refuse to write over what git could not give back, or to commit what is the user's."""
    from torchmigrate import vcs

    if target:
        from torchmigrate.cli import commit

        commit.refuse_changed([change.path for change in changes], target)
    elif not request.allow_dirty:
        _refuse_dirty(vcs.dirty([change.path for change in changes if not change.new]))


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
