"""Add a git worktree for copies that `verify` makes; of the repository only the list of worktrees changes."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.vcs import git_tree
from torchmigrate.vcs.git_tree import Repository
from torchmigrate.vcs.hardening import GitError

VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree with nothing but a `.git` file; `record` is git's directory for it in the user's repository."""

    path: Path
    record: Path


def add(repository: Repository, path: Path) -> Worktree | None:
    """Add a worktree at `path` on HEAD, without files; None if git cannot: no commit, or a read-only repository."""
    if git_tree.strays(repository):
        return None
    try:
        repository.run("worktree", "add", "--quiet", "--detach", "--no-checkout", os.fspath(path), "HEAD")
        marker = file_io.read_text(path / ".git").removeprefix("gitdir:").strip()
    except (GitError, OSError):
        return None
    made = Worktree(path, Path(marker))
    own = {"GIT_DIR": marker, "GIT_WORK_TREE": os.fspath(path), "GIT_INDEX_FILE": os.path.join(marker, "index")}
    with contextlib.suppress(GitError):
        repository.run("read-tree", "HEAD", env=own)  # so that `git status` and `git describe --dirty` make sense there
    return made


def remove(worktree: Worktree) -> None:
    """Remove a worktree, without `git worktree prune`, which would also remove the user's stale ones."""
    shutil.rmtree(worktree.path, ignore_errors=True)
    shutil.rmtree(worktree.record, ignore_errors=True)
    with contextlib.suppress(OSError):
        worktree.record.parent.rmdir()  # git, too, removes the list with its last entry
