"""A git worktree for the copies: git answers in them, and nothing of the user's repository is touched but its list of
worktrees, which ends as it was."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchmigrate.vcs import Repository

# No hook runs, no lock is taken, no daemon is started for what we ask.
_QUIET = ("--no-optional-locks", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


@dataclass(frozen=True, slots=True)
class Worktree:
    """`path` holds only a `.git` file, which a copy of the project may hold as well; `record` is git's own note of
    it."""

    path: Path
    record: Path


def _git(directory: Path, *arguments: str, env: dict[str, str] | None = None) -> bytes:
    import git

    command: Sequence[str] = ["git", *_QUIET, *arguments]
    runner: Any = git.Git(directory)
    output = runner.execute(command, stdout_as_string=False, strip_newline_in_stdout=False, env=env)
    return bytes(output)


def ignored(repository: Repository) -> list[str]:
    """What git ignores, relative to the top, slash-separated; a directory that is ignored as a whole ends in a
    slash."""
    output = _git(repository.top, "status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all")
    return [os.fsdecode(entry[3:]) for entry in output.split(b"\0") if entry.startswith(b"!! ")]


def add(repository: Repository, path: Path) -> Worktree | None:
    """A worktree at `path` on the current commit, without its files. None where git cannot: no commit yet,
    read-only."""
    import git

    try:
        _git(repository.top, "worktree", "add", "--quiet", "--detach", "--no-checkout", os.fspath(path), "HEAD")
        marker = (path / ".git").read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    except (git.exc.GitError, OSError):
        return None
    made = Worktree(path, Path(marker))
    own = {"GIT_DIR": marker, "GIT_WORK_TREE": os.fspath(path), "GIT_INDEX_FILE": os.path.join(marker, "index")}
    with contextlib.suppress(git.exc.GitError):
        _git(path, "read-tree", "HEAD", env=own)  # so that `git status` and `git describe --dirty` make sense there
    return made


def remove(worktree: Worktree) -> None:
    """As `git worktree remove` does, and no `prune`, which would take other stale worktrees of the user's with it."""
    shutil.rmtree(worktree.path, ignore_errors=True)
    shutil.rmtree(worktree.record, ignore_errors=True)
    with contextlib.suppress(OSError):
        worktree.record.parent.rmdir()  # git, too, removes the list with its last entry
