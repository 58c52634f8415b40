"""Ask git about a work tree: its files, and which of them git could not restore; add a worktree for copies."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    why: str  # unstaged | untracked | ignored | staged, or a few words on what git hides


@dataclass(frozen=True, slots=True)
class Repository:
    """A git work tree; `top` and `git_dir` are real paths."""

    top: Path
    git_dir: Path
    git: Git

    def unreplaced(self) -> Repository:
        """Return the repository as it is without `git replace`: commits that are made build on what it really holds."""
        return replace(self, git=replace(self.git, env={**self.git.env, "GIT_NO_REPLACE_OBJECTS": "1"}))

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
        return _inside(output.split(b"\0"))

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
        return _inside(entry[3:] for entry in output.split(b"\0") if entry.startswith(b"!! "))

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
                file_io.add(copy, file_io.read(index, _INDEX_BYTES))
                # git compares the content of files that are no older than the index: the copy must not look newer
                os.utime(copy, ns=(0, index.stat().st_mtime_ns))
            env = {"GIT_INDEX_FILE": os.fspath(copy)}
            return self._paths(self.run("diff", *_NAMES, _ALONE, since, "--", env=env) + untracked)

    def staged(self) -> list[Path]:
        """Return the files that the next commit would add or change."""
        return self._paths(self.run("diff", *_NAMES, _ALONE, "--cached", "--"))

    def _paths(self, output: bytes) -> list[Path]:
        names = sorted({*_inside(output.split(b"\0"))})
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

    def lost(self, contents: Mapping[Path, bytes | None], staged: bool = False) -> list[Dirty]:
        """Return the dirty files, also those with a change that `git status` does not show.

        `contents` are the bytes that each file has; a file without any is not there. What git has of a file is read
        and compared, as the repository decides what git looks at: an index that is out of date or marks files as
        unchanged, files to be skipped, objects that are replaced or not there.
        """
        found = self.dirty(list(contents), staged)
        told = {self._name(dirty.path) for dirty in found}
        left = [
            (name, raw) for path, raw in contents.items() if raw is not None and (name := self._name(path)) not in told
        ]
        for at in range(0, len(left), _CHUNK):
            found += (Dirty(self.top / name, why) for name, why in self._hidden(dict(left[at : at + _CHUNK])))
        return found

    def _hidden(self, contents: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
        """Yield the files, few enough for one git command, that are not what git has of them, and what they are."""
        blobs = self._blobs(list(contents))
        yield from ((name, "untracked") for name in contents if name not in blobs)
        kept = dict(zip(blobs, self._read(list(blobs.values())), strict=True))
        changed = [name for name, content in kept.items() if content is not None and content != contents[name]]
        hashes = dict(zip(changed, self._hashes(changed), strict=True))
        for name, blob in blobs.items():
            content = kept[name]
            if content is None:
                yield name, "git has lost its content"
            elif name in hashes and hashes[name] != blob:
                yield name, "changed, which `git status` hides"
            elif name in hashes and _blob_hash(content, blob) != blob:
                yield name, "git gives other content in its place"

    def _blobs(self, names: Sequence[str]) -> dict[str, str]:
        """Return the hash in the index of each of these names that is a file there, and in no merge."""
        blobs: dict[str, str] = {}
        for entry in self.run("ls-files", "-s", "-z", "--", *names).split(b"\0"):
            facts, _, name = entry.partition(b"\t")
            if facts.startswith(b"100") and facts.endswith(b" 0"):
                blobs[_composed(os.fsdecode(name))] = facts.split()[1].decode()
        return {name: blobs[name] for name in names if name in blobs}

    def _read(self, blobs: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the content of each blob, None for one that is not there."""
        output = self.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
        at = 0
        for _ in blobs:
            head, _, _ = output[at : at + _PATH_BYTES].partition(b"\n")
            at += len(head) + 1
            if head.split()[1:2] == [b"blob"]:
                size = int(head.split()[2])
                yield output[at : at + size]
                at += size + 1
            else:
                yield None

    def _hashes(self, names: Sequence[str]) -> list[str]:
        """Return the hash that git would give each file now: with its line ends and the user's own filters."""
        lines = "".join(f"{_quoted(name)}\n" for name in names)
        return self.run("hash-object", "--stdin-paths", stdin=os.fsencode(lines)).decode().split() if names else []

    def _name(self, path: Path) -> str:
        return _composed(_with_slashes(os.path.relpath(path, self.top)))


def _inside(names: Iterable[bytes]) -> list[str]:
    """Return the names that lie in the work tree: git lists whatever an index says, `/etc/x.py` and `../x.py`, too."""
    return [name for name in map(os.fsdecode, names) if _is_inside(name.removesuffix("/"))]


def _is_inside(name: str) -> bool:
    parts = _with_slashes(name).split("/")
    return not os.path.splitdrive(name)[0] and {"", ".", "..", ".git"}.isdisjoint(part.lower() for part in parts)


def _blob_hash(content: bytes, like: str) -> str:
    """Return git's hash of a file's content, of the same kind as another hash."""
    kind = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return kind(b"blob %d\0" % len(content) + content).hexdigest()


def _composed(name: str) -> str:
    """Return a name as git spells it: on macOS with composed characters."""
    return unicodedata.normalize("NFC", name) if system.is_macos() else name


def _quoted(name: str) -> str:
    """Quote a name for git, so that it takes one line."""
    if name.startswith('"') or "\n" in name:
        name = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{name}"'
    return name


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


def lost(contents: Mapping[Path, bytes | None]) -> list[Dirty]:
    """Return the files, sorted, that git could not restore, also where `git status` tells nothing of their changes."""
    groups = by_repository(list(contents))
    found = [d for repo, group in groups if repo for d in repo.lost({path: contents[path] for path in group})]
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
        top, git_dir = _top_and_git_dir(shell)
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


def _top_and_git_dir(shell: Git) -> tuple[Path, Path]:
    """Ask git for both folders of a work tree: at once, unless a name has a newline of its own."""
    which = ("--show-toplevel", "--absolute-git-dir")
    lines = shell("rev-parse", *which).splitlines(keepends=True)
    top, git_dir = lines if len(lines) == len(which) else (shell("rev-parse", each) for each in which)
    return _parse_path(top), _parse_path(git_dir)


def _parse_path(output: bytes) -> Path:
    return Path(os.path.realpath(os.fsdecode(output.removesuffix(b"\n"))))


VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree with nothing but a `.git` file; `record` is git's directory for it in the user's repository."""

    path: Path
    record: Path


def add(repository: Repository, path: Path) -> Worktree | None:
    """Add a worktree at `path` on HEAD, without files; None if git cannot: no commit, or a read-only repository."""
    if strays(repository):
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
