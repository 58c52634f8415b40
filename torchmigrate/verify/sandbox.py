"""Make sandboxes: copies of a project in which runs happen, with large data linked instead of copied.

Of the copies, one holds the project's data, and the others share its files by hard links. A run that writes one gets a
file of its own: simulated/write_protection.py.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from torchmigrate.base import system
from torchmigrate.base.globs import Globs
from torchmigrate.base.text import UserError
from torchmigrate.project.discovery import SUFFIXES
from torchmigrate.vcs import git_tree

LARGE = 1 << 20  # bytes: larger files are linked, unless they are source
MANY = 2000  # files: directories with more, and no source, are linked
_BLOCK = 4096  # bytes: sharing a smaller file saves nothing
CACHES = frozenset((
    "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints",
    ".git", ".hg", ".svn",
))  # fmt: skip
NOTHING = Globs(())
_PATIENCE = 20.0  # seconds to wait for runs that are being ended
_WHOLE = frozenset((".venv", "venv", ".tox", ".nox", ".direnv", "node_modules", "site-packages"))


@dataclass(slots=True)
class Copier:
    """Copy entries from `source` to `target`; those in `linked`, relative with slashes, are only linked."""

    source: str
    target: str
    linked: list[str] = field(default_factory=list)
    copied: int = 0
    """Bytes."""

    def add(self, names: Iterable[str]) -> None:
        """Copy files and directories below `source`; skip missing ones, since git lists deleted files too."""
        for name in names:
            name = name.rstrip("/")
            if CACHES.isdisjoint(name.split("/")) and os.path.lexists(os.path.join(self.source, name)):
                os.makedirs(os.path.dirname(os.path.join(self.target, name)), exist_ok=True)
                self._entry(name)

    def add_all(self) -> None:
        """Copy everything but caches."""
        self._directory("")

    def _entry(self, name: str) -> None:
        path = os.path.join(self.source, name)
        if os.path.isdir(path) and not os.path.islink(path):
            self._directory(name)
        elif os.path.lexists(os.path.join(self.target, name)):
            return  # a tracked file in an ignored directory: it was copied with the tracked files
        elif os.path.islink(path):
            os.symlink(self._link_target(path), os.path.join(self.target, name))
        elif not os.path.isfile(path):
            return  # a socket, a pipe
        elif os.path.getsize(path) > LARGE and not name.endswith(SUFFIXES):
            self._link(name)
        else:
            shutil.copy2(path, os.path.join(self.target, name))
            self.copied += os.path.getsize(path)

    def _directory(self, name: str) -> None:
        path = os.path.join(self.source, name)
        children = sorted(c for c in os.listdir(path) if c not in CACHES)
        inside = [f"{name}/{child}" if name else child for child in children]
        if name and not os.path.lexists(os.path.join(self.target, name)):
            if os.path.basename(name) in _WHOLE or "pyvenv.cfg" in children:
                self._link(name)
                return
            if _is_data(path):
                self._shallow(name, inside)
                return
        os.makedirs(os.path.join(self.target, name), exist_ok=True)
        for child in inside:
            self._entry(child)

    def _shallow(self, name: str, inside: list[str]) -> None:
        """Make a directory with links to its children, for writes; if these are many, link the directory itself."""
        if len(inside) > MANY:
            self._link(name)
            return
        os.makedirs(os.path.join(self.target, name))
        for child in inside:
            os.symlink(os.path.join(self.source, child), os.path.join(self.target, child))
        self.linked.append(name + "/*")

    def _link(self, name: str) -> None:
        os.symlink(os.path.join(self.source, name), os.path.join(self.target, name))
        self.linked.append(name)

    def _link_target(self, path: str) -> str:
        """Return a copied link's target: the tree's own links lead into the copy, others become absolute."""
        found = os.readlink(path)
        leads = os.path.normpath(os.path.join(os.path.dirname(path), found))
        inside = leads == self.source or system.is_inside(leads, self.source)
        if not inside:
            return leads
        if not os.path.isabs(found):
            return found
        return os.path.join(self.target, os.path.relpath(leads, self.source))


def _is_data(path: str) -> bool:
    """Return whether a directory holds more than MANY files, and no source before them, on a short walk."""
    for count, name in enumerate(_file_names(path), 1):
        if name.endswith(SUFFIXES):
            return False
        if count > MANY:
            return True
    return False


def _file_names(path: str) -> Iterator[str]:
    for _, directories, names in os.walk(path):
        directories[:] = [d for d in directories if d not in CACHES]
        yield from names


def duplicate(source: str, target: str, written: Globs = NOTHING) -> dict[str, os.stat_result]:
    """Copy a tree that `Copier` made, and return the files that both share, by name.

    Source, files that match `written` and small ones are not shared. Absolute links to its own root are moved to the
    new one.
    """
    shared: dict[str, os.stat_result] = {}
    for directory, directories, names in os.walk(source):
        inside = os.path.relpath(directory, source)
        os.makedirs(os.path.join(target, inside), exist_ok=True)
        for each in [*names, *directories]:
            path, name = os.path.join(directory, each), os.path.normpath(os.path.join(inside, each))
            there = os.path.join(target, name)
            if os.path.islink(path):
                os.symlink(_retarget_link(os.readlink(path), source, target), there)
            elif each in names and (known := _share(path, there, name, written)):
                shared[name] = known
            elif each in names:
                shutil.copy2(path, there)
    return shared


def _share(path: str, there: str, name: str, written: Globs) -> os.stat_result | None:
    """Make `there` another name of a file that is likely only read; return None if it has to be a copy."""
    known = os.stat(path)
    if known.st_size < _BLOCK or name.endswith(SUFFIXES) or written.match(system.slashed(name)):
        return None
    try:
        os.link(path, there)
    except OSError:  # a file system without hard links, or with too many of this file
        return None
    return known


def _retarget_link(link: str, source: str, target: str) -> str:
    return target + link[len(source) :] if link == source or system.is_inside(link, source) else link


_SETTINGS = ("pyproject.toml", "setup.py", "setup.cfg")


def _top(directory: Path, everything: Sequence[Path]) -> Path:
    """Return the top of a project outside of git: a package in it is imported from above."""
    above = list(itertools.takewhile(lambda folder: folder not in everything, (directory, *directory.parents)))
    for folder in above:
        if any((folder / name).is_file() for name in _SETTINGS):
            return folder
    return next((folder for folder in above if not (folder / "__init__.py").is_file()), directory)


@dataclass(frozen=True, slots=True)
class Project:
    """A Project is what is verified; all paths are real paths.

    `path`: what is migrated. `directory`: where the command runs. `anchor`: the root of what is copied, at or above
    both: the repository's top, else the directory of the nearest pyproject.toml, setup.py or setup.cfg, else that of
    the outermost package.
    """

    path: Path
    directory: Path
    anchor: Path
    repository: git_tree.Repository | None

    @classmethod
    def at(cls, path: Path) -> Self:
        """Find the project of a path; raises UserError if the path does not exist."""
        if not path.exists():
            raise UserError(f"{path}: no such file or directory", "as in: torchmigrate verify . -- python train.py")
        real = Path(os.path.realpath(path))
        directory = real if real.is_dir() else real.parent
        home = os.path.realpath(os.path.expanduser("~"))
        everything = (Path(home), Path(real.anchor))  # a home directory under git is no project
        repository = git_tree.repository(directory)
        if repository and repository.top not in everything and not repository.ignores(directory):
            return cls(real, directory, repository.top, repository)
        return cls(real, directory, _top(directory, everything), None)

    def within(self, root: Path, path: Path) -> Path:
        """Return the counterpart in the copy at `root` of one of the project's paths."""
        return root / path.relative_to(self.anchor)


@dataclass(frozen=True, slots=True)
class Place:
    """A run has a place: the copy `root` of `base`, where it starts, and directories beside the copy.

    What is put into `kept` stays there until all runs have been compared.
    """

    root: Path
    directory: Path
    reports: Path
    scratch: Path
    base: Path
    kept: Path


@dataclass
class Sandbox:
    """The sandbox is a context manager with copies of the original and the rewritten project; they share `linked` data.

    Its exit waits for runs in other threads: a copy that is still being made could not be deleted.

    `written`: files that runs are expected to write. `copied`: bytes. `damaged`: shared files that a run wrote past
    the protection, as programs other than Python do; they were put back.
    """

    project: Project
    written: Globs = NOTHING
    linked: list[str] = field(default_factory=list)
    copied: int = 0
    damaged: list[str] = field(default_factory=list)
    _worktree: git_tree.Worktree | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _in_use: set[Path] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False

    def __enter__(self) -> Self:
        # a short name: paths of Unix sockets are limited to 104 characters
        self.home = Path(os.path.realpath(tempfile.mkdtemp(prefix="tmv-")))
        self.original, self.rewritten = (self.home / kind / self._name for kind in ("original", "rewritten"))
        try:
            self._copy()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def _name(self) -> str:
        return self.project.anchor.name or "project"

    def _copy(self) -> None:
        anchor, repository = self.project.anchor, self.project.repository
        copier = Copier(os.fspath(anchor), os.fspath(self.original))
        self.original.mkdir(parents=True)
        if repository:
            self._worktree = git_tree.add(repository, self.home / f"torchmigrate-{self.home.name}")
            copier.add(repository.files(anchor))
            copier.add(repository.ignored())
            if self._worktree:
                shutil.copy2(self._worktree.path / ".git", self.original / ".git")
        else:
            copier.add_all()
        self.linked, self.copied = copier.linked, copier.copied
        duplicate(os.fspath(self.original), os.fspath(self.rewritten), self.written)

    @contextmanager
    def fresh(self, base: Path) -> Iterator[Place]:
        """Copy one of the two trees for one run; the copy is deleted afterwards.

        Raises RuntimeError once the sandbox is being deleted.
        """
        home = self.home / str(next(self._numbers))
        with self._changed:
            if self._closed:
                raise RuntimeError("the sandbox is being deleted")
            self._in_use.add(home)
        root = home / self._name
        start, kept = self.project.within(root, self.project.directory), self.home / "kept" / home.name
        place = Place(root, start, home / "reports", home / "t", base, kept)
        try:
            place.reports.mkdir(parents=True)
            place.scratch.mkdir()
            shared = duplicate(os.fspath(base), os.fspath(place.root), self.written)
            yield place
            self._put_back(base, shared)
        finally:
            _delete(home)
            with self._changed:
                self._in_use.discard(home)
                self._changed.notify_all()

    def _put_back(self, base: Path, shared: Mapping[str, os.stat_result]) -> None:
        """Copy shared files anew that the run wrote nevertheless."""
        for name, known in shared.items():
            path = base / name
            now = path.stat()
            if (now.st_size, now.st_mtime_ns) == (known.st_size, known.st_mtime_ns) or now.st_ino != known.st_ino:
                continue  # another run has found it already
            self.damaged.append(name)
            for tree in (self.original, self.rewritten):
                fresh = tree / f"{name}.torchmigrate"
                shutil.copy2(self.project.anchor / name, fresh)
                os.replace(fresh, tree / name)

    def _remove(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._in_use, _PATIENCE)
        if self._worktree:
            git_tree.remove(self._worktree)
        _delete(self.home)


def _delete(directory: Path) -> None:
    """Delete a directory, even if a program made parts of it read-only."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        for path in directory.rglob("*"):
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(directory, ignore_errors=True)
