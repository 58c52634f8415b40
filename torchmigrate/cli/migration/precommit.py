"""Under pre-commit, and in `check --staged`: a commit must not take in code that imports the helper without it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base.errors import UserError

if TYPE_CHECKING:
    from torchmigrate.cli.request import Request
    from torchmigrate.project.selection import Selection


# a statement on one line, as we write it: behind `;` and `:` too, and in the JSON text of a notebook
_IMPORTED = rb"(?:^|[\"';:])[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import\b[^\n#]*\b(%s)\b"


def refuse_lost_helper(request: Request, only: Selection) -> None:
    """Raises UserError for a helper that files of the next commit import, and that git does not track."""
    is_gate = os.environ.get("PRE_COMMIT") or (request.staged and request.command == "check")
    if request.command == "dry-run" or not is_gate:
        return
    names = only.paths if only.paths is not None else map(os.path.realpath, request.paths)
    users = {helper: path for path in map(Path, sorted(names, reverse=True)) for helper in _helpers(path)}
    if not users:
        return
    from torchmigrate.vcs import git_tree

    lost = [dirty.path for dirty in git_tree.dirty(sorted(users)) if dirty.why == "untracked"]
    if lost:
        helpers = [os.path.relpath(path) for path in lost]
        what = f"{os.path.relpath(users[lost[0]])} imports {helpers[0]}, which the commit would be without"
        raise UserError(what, f"git add {shlex.join(helpers)}")


def _helpers(path: Path) -> Sequence[Path]:
    """Helpers that a file of this text and place may import; clean files cost one search."""
    from torchmigrate.project.helper_file import NAMES, is_ours

    try:
        raw = path.read_bytes() if path.is_file() else b""
    except OSError:
        return []
    found = {name.decode() for name in re.findall(_IMPORTED % "|".join(NAMES).encode(), raw, re.M)}
    return [file for name in sorted(found) for file in _above(path, f"{name}.py") if is_ours(file)]


def _above(path: Path, name: str) -> Iterator[Path]:
    """From the file's directory up to the top of the work tree."""
    from torchmigrate.vcs import git_tree

    top = git_tree.marker(path.parent)
    for directory in path.parents if top else ():
        yield directory / name
        if directory == top:
            return
