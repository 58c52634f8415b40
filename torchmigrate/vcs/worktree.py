"""A git worktree for the copies: git answers in them, and nothing of the user's repository is touched but its list of
worktrees, which ends as it was."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.vcs.git_tree import Repository

VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


@dataclass(frozen=True, slots=True)
class Worktree:
    """`path` holds only a `.git` file, which a copy of the project may hold as well; `record` is git's own note of
    it."""

    path: Path
    record: Path


def add(repository: Repository, path: Path) -> Worktree | None:
    """A worktree at `path` on the current commit, without its files. None where git cannot: no commit yet,
    read-only."""
    import git

    try:
        repository.run("worktree", "add", "--quiet", "--detach", "--no-checkout", os.fspath(path), "HEAD")
        marker = (path / ".git").read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    except (git.exc.GitError, OSError):
        return None
    made = Worktree(path, Path(marker))
    own = {"GIT_DIR": marker, "GIT_WORK_TREE": os.fspath(path), "GIT_INDEX_FILE": os.path.join(marker, "index")}
    with contextlib.suppress(git.exc.GitError):
        repository.run("read-tree", "HEAD", env=own)  # so that `git status` and `git describe --dirty` make sense there
    return made


def remove(worktree: Worktree) -> None:
    """As `git worktree remove` does, and no `prune`, which would take other stale worktrees of the user's with it."""
    shutil.rmtree(worktree.path, ignore_errors=True)
    shutil.rmtree(worktree.record, ignore_errors=True)
    with contextlib.suppress(OSError):
        worktree.record.parent.rmdir()  # git, too, removes the list with its last entry
