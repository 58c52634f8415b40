"""Find what the files of a migrated project held before: in git, or in the journal that `apply` keeps."""

from __future__ import annotations

import os
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.text import UserError, did_you_mean, shorten


def since(path: Path, name: str) -> dict[Path, bytes]:
    """Return the files that differ from where this branch left the commit, as they were there; raises UserError."""
    from torchmigrate.vcs import git_tree
    from torchmigrate.vcs.hardening import GitError

    real = Path(os.path.realpath(path))
    repository = git_tree.repository(real if real.is_dir() else real.parent)
    if repository is None:
        raise UserError(f"--since asks git, and `{path}` is in no git repository that can be read", "leave it out")
    commit = repository.commit(name)
    if commit is None:
        hint = did_you_mean(name, repository.branches()) or "name a branch, a tag or a commit, as `main` or `HEAD~3`"
        raise UserError(f"--since: git knows no commit `{shorten(name, 60)}` in {repository.top}", hint)
    base = repository.common(commit) or commit
    found = {}
    for file in repository.changed(base):
        try:
            found[file] = repository.run("cat-file", "blob", f"{base}:{file.relative_to(repository.top).as_posix()}")
        except GitError:
            continue  # new since then: the original does not use it
    if not found:
        raise UserError(f"--since {name}: no file differs from it", "name a commit before the migration")
    return found


def applied(path: Path) -> dict[Path, bytes]:
    """Return the files that the last `apply` rewrote and that are as it left them, as they were before.

    Where the user's state folder has no journal of it, git has them, if they were committed and the rewritten ones are
    not.
    """
    from torchmigrate.apply import journal

    newest = next(journal.below(path), None)
    if newest is None:
        try:
            return since(path, "HEAD")
        except UserError:
            return {}
    kept, entries = newest
    return {
        kept.path(entry): kept.original(entry)
        for entry in entries
        if not entry.new
        and kept.path(entry).is_file()
        and journal.digest(file_io.read(kept.path(entry))) == entry.after
    }
