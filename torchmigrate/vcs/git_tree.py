"""Ask git about a work tree: its files, and which of them git could not restore."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.base import file_io, system
from torchmigrate.vcs.hardening import Git, GitError

# A submodule has its own settings, which `hardening` does not override, so git must not look into it.
_ALONE = "--ignore-submodules=all"
# A renamed file counts under its new name; a deleted one is left out.
_NAMES = ("--name-only", "-z", "--no-renames", "--diff-filter=d", "--no-ext-diff", "--no-textconv", "--no-relative")
_CHUNK = 400  # paths per git command, below the command line limit of every platform


@dataclass(frozen=True, slots=True)
class Dirty:
    """A file whose content in the work tree git could not restore."""

    path: Path
    why: str  # unstaged | untracked | ignored | staged


@dataclass(frozen=True, slots=True)
class Repository:
    """A git work tree; `top` and `git_dir` are real paths."""

    top: Path
    git_dir: Path
    git: Git

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> bytes:
        """Run a git command at `top` and return its output. Raises GitError."""
        return self.git("--literal-pathspecs", *arguments, env=env, stdin=stdin)

    def ask(self, *arguments: str) -> str | None:
        """Run a git command and return its output as text, or None if it fails."""
        try:
            return self.run(*arguments).decode(errors="replace").strip()
        except GitError:
            return None

    def files(self, directory: Path) -> list[str]:
        """List the files below `directory` that git does not ignore, relative to `top`.

        Paths are slash-separated. A nested repository is one entry that ends with a slash.
        """
        listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        output = self.run(*listing, "--", os.path.relpath(directory, self.top))
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def ignores(self, directory: Path) -> bool:
        """Return whether git ignores this directory itself, so that `files` lists nothing for it."""
        try:
            self.git("check-ignore", "-q", "--", os.fspath(directory))
        except GitError:
            return False
        return True

    def ignored(self) -> list[str]:
        """List all that git ignores, relative to `top`; a directory ignored as a whole ends with a slash."""
        output = self.run("status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all", _ALONE)
        return [os.fsdecode(entry[3:]) for entry in output.split(b"\0") if entry.startswith(b"!! ")]

    def commit(self, name: str) -> str | None:
        """Return the hash of the commit that a branch, a tag or an abbreviated hash names, or None."""
        return self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def common(self, commit: str) -> str | None:
        """Return the merge base of HEAD and `commit`, or None if they have no common history."""
        return self.ask("merge-base", commit, "HEAD")

    def branches(self) -> list[str]:
        """Return the short names of all branches, remote ones included, and of all tags."""
        return (self.ask("for-each-ref", "--format=%(refname:short)") or "").split()

    @property
    def is_shallow(self) -> bool:
        return self.ask("rev-parse", "--is-shallow-repository") == "true"

    def changed(self, since: str) -> list[Path]:
        """Return the files of the work tree that differ from the commit `since`, untracked but not ignored ones too."""
        untracked = self.run("ls-files", "-z", "--others", "--exclude-standard")
        import tempfile

        with tempfile.TemporaryDirectory(prefix="torchmigrate-") as directory:
            # `git diff` writes what it learns to the index, so it gets a copy
            copy = Path(directory, "index")
            with contextlib.suppress(FileNotFoundError):
                index = self.top / (os.environ.get("GIT_INDEX_FILE") or self.git_dir / "index")
                written = os.stat(index)
                file_io.add(copy, file_io.read(index, _INDEX_BYTES))
                # git reads again what was saved in the second in which the index was, and takes the index's word else
                os.utime(copy, ns=(written.st_atime_ns, written.st_mtime_ns))
            env = {"GIT_INDEX_FILE": os.fspath(copy)}
            return self._paths(self.run("diff", *_NAMES, _ALONE, since, "--", env=env) + untracked)

    def staged(self) -> list[Path]:
        """Return the files that the next commit would add or change."""
        return self._paths(self.run("diff", *_NAMES, _ALONE, "--cached", "--"))

    def _paths(self, output: bytes) -> list[Path]:
        names = sorted({os.fsdecode(name) for name in output.split(b"\0") if name})
        return [Path(os.path.realpath(self.top / name)) for name in names]

    def dirty(self, paths: Sequence[Path], staged: bool = False) -> list[Dirty]:
        """Return those of `paths` that have unstaged changes or are untracked; with `staged`, also staged changes."""
        return [dirty for at in range(0, len(paths), _CHUNK) for dirty in self._dirty(paths[at : at + _CHUNK], staged)]

    def _dirty(self, paths: Sequence[Path], staged: bool) -> Iterator[Dirty]:
        """Yield the dirty files among `paths`, which are few enough for one git command."""
        inside = [os.path.relpath(path, self.top) for path in paths]
        # the traditional --ignored mode lists directories; =matching with --untracked-files=all lists files
        flags = ("--porcelain", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames", _ALONE)
        for entry in self.run("status", *flags, "--", *inside).split(b"\0"):
            state, name = entry[:2], os.fsdecode(entry[3:])
            in_index = state[1:] == b" "
            if not name or (in_index and not staged):
                continue
            why = {b"??": "untracked", b"!!": "ignored"}.get(state, "staged" if in_index else "unstaged")
            if name.endswith("/"):
                below = (path for path, i in zip(paths, inside, strict=True) if _with_slashes(i).startswith(name))
                yield from (Dirty(path, why) for path in below)
            else:
                yield Dirty(self.top / name, why)


def strays(repository: Repository) -> str:
    """Return why a write to this repository could land outside of it, as in "`.git/index` is a link", or "".

    What git writes must lie in a directory that belongs to this work tree, and no link may lead out of it.
    """
    git_dir, mark = repository.git_dir, repository.top / ".git"
    common = Path(os.path.realpath(mark.parent / (repository.ask("rev-parse", "--git-common-dir") or "")))
    if mark.is_symlink() or (mark.is_dir() and not common == git_dir == mark):
        return f"`{mark}` leads to {common}"
    if mark.is_file() and not _is_named_back(repository, common, mark):
        return f"`{mark}` names {git_dir}, which does not name it in turn"
    return next((told for place in dict.fromkeys((git_dir, common)) for told in _links(place)), "")


def _is_named_back(repository: Repository, common: Path, mark: Path) -> bool:
    """Return whether the directory that a `.git` file names belongs to the file's work tree, as git's own ones do."""
    git_dir = repository.git_dir
    try:
        if git_dir != common:  # a worktree
            back = os.fsdecode(file_io.read(git_dir / "gitdir", _PATH_BYTES)).strip()
            return git_dir.parent == common / "worktrees" and Path(os.path.realpath(git_dir / back)) == mark
        tree = repository.ask("config", "--local", "core.worktree")  # a submodule
        return tree is not None and Path(os.path.realpath(git_dir / tree)) == mark.parent
    except (OSError, ValueError):
        return False


def _links(git_dir: Path) -> Iterator[str]:
    """Yield what is no plain file or directory among what git writes; of the objects, their directories alone."""
    todo = [git_dir / name for name in _WRITTEN]
    while todo:
        path = todo.pop()
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            yield f"`{path}`: {(error.strerror or str(error)).lower()}"
            continue
        inside = path.relative_to(git_dir).parts
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(path) as entries:
                todo += [Path(entry.path) for entry in entries if _is_written(inside, entry)]
        elif not stat.S_ISREG(status.st_mode):
            yield f"`{path}` is {'a link' if stat.S_ISLNK(status.st_mode) else 'no regular file'}"
        elif inside[0] == "logs" and status.st_nlink > 1:  # git appends to it
            yield f"`{path}` has another name elsewhere"


# What git writes for a commit or a worktree; it opens lock files only where there is none.
_WRITTEN = ("HEAD", "index", "packed-refs", "objects", "refs", "logs", "reftable", "worktrees")


def _is_written(inside: tuple[str, ...], entry: os.DirEntry[str]) -> bool:
    """Return whether git may write to an entry of a directory: objects and worktrees get new files alone."""
    if inside[0] in ("objects", "worktrees"):
        return inside == ("objects",) and not entry.is_file(follow_symlinks=False)
    return True


_PATH_BYTES = 10_000
_INDEX_BYTES = 1_000_000_000  # of ten million files


def _with_slashes(path: str) -> str:
    return system.slashed(path)


def marker(directory: Path) -> Path | None:
    """Return the nearest directory at or above with a `.git`, or None: then GitPython need not be imported."""
    return next((d for d in (directory, *directory.parents) if os.path.lexists(d / ".git")), None)


def by_repository(paths: Sequence[Path]) -> list[tuple[Repository | None, list[Path]]]:
    """Group real paths by the repository that contains them; the key is None for paths outside of git."""
    tops: dict[Path, Path | None] = {}
    groups: dict[Path | None, list[Path]] = {}
    for path in paths:
        if path.parent not in tops:
            tops[path.parent] = marker(path.parent)
        groups.setdefault(tops[path.parent], []).append(path)
    return [(repository(top) if top else None, group) for top, group in groups.items()]


def dirty(paths: Sequence[Path]) -> list[Dirty]:
    """Return the files, sorted, that git could not restore; not those outside of git, which `undo` restores."""
    found = [d for repo, group in by_repository(paths) if repo for d in repo.dirty(group)]
    return sorted(found, key=lambda d: d.path)


def unanswered(paths: Sequence[Path]) -> tuple[Path, str] | None:
    """Return a work tree around some of these real paths of which git tells nothing, and why it does not; or None."""
    for top in filter(None, dict.fromkeys(marker(path.parent) for path in paths)):
        try:
            if repository(top) is None:
                opened(top)  # says why
        except GitError as error:
            return top, str(error)
    return None


def repository(directory: Path) -> Repository | None:
    """Return the work tree that contains `directory`, or None: no repository, no git, or git refuses."""
    try:
        return opened(directory)
    except GitError:
        return None


def opened(directory: Path) -> Repository | None:
    """Return the work tree that contains `directory`, or None if there is none. Raises GitError if git refuses."""
    start = marker(directory)
    if start is None:
        return None
    try:
        shell = Git(start)
        top, git_dir = (_parse_path(shell("rev-parse", which)) for which in ("--show-toplevel", "--absolute-git-dir"))
        real = Path(os.path.realpath(directory))
        if not (real.is_relative_to(top) and os.path.lexists(top / ".git")):
            raise GitError("core.worktree points to another directory")
        return Repository(top, git_dir, shell.hardened())
    except (OSError, ValueError) as error:  # a folder that vanished, or a name that no program can be given
        raise GitError(str(error)) from None


def bare(path: Path) -> Repository | None:
    """Return the repository without a work tree at a path, or None.

    A folder that a work tree has among its files is none: such files come with a clone, settings included.
    """
    if not all((path / name).exists() for name in ("HEAD", "objects", "refs")) or marker(path) == path:
        return None
    try:
        around = opened(path)
        if around and around.run("ls-files", "-z", "--", os.path.relpath(path, around.top)):
            return None
        # git may be configured not to find bare repositories
        return Repository(path, path, Git(path, {"GIT_DIR": os.fspath(path)}).hardened())
    except GitError:
        return None


def _parse_path(output: bytes) -> Path:
    return Path(os.path.realpath(os.fsdecode(output.removesuffix(b"\n"))))
