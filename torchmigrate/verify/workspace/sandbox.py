"""Copies of the project to run in: the original, the rewritten one, and a fresh one per run. All vanish at the end."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from torchmigrate.base.errors import UserError
from torchmigrate.config import config_file
from torchmigrate.vcs import git_tree, worktree
from torchmigrate.verify.workspace.copying import Copier, duplicate


@dataclass(frozen=True, slots=True)
class Project:
    """What is verified. `path` is what is migrated, `directory` is where the command runs; both lie at or below
    `anchor`, the root of what is copied: the repository's top, else the directory of the nearest pyproject.toml.
    All are real paths."""

    path: Path
    directory: Path
    anchor: Path
    repository: git_tree.Repository | None

    @classmethod
    def at(cls, path: Path) -> Self:
        """Raises UserError for a path that is not there."""
        if not path.exists():
            raise UserError(f"{path}: no such file or directory", "as in: torchmigrate verify . -- python train.py")
        real = Path(os.path.realpath(path))
        directory = real if real.is_dir() else real.parent
        home = os.path.realpath(os.path.expanduser("~"))
        everything = (Path(home), Path(real.anchor))  # a home under git is no project
        repository = git_tree.repository(directory)
        if repository and repository.top not in everything and not repository.ignores(directory):
            return cls(real, directory, repository.top, repository)
        nearest = config_file.find(directory)
        return cls(real, directory, nearest.parent if nearest and nearest.parent not in everything else directory, None)

    def within(self, root: Path, path: Path) -> Path:
        """The counterpart of one of our paths in the copy at `root`."""
        return root / path.relative_to(self.anchor)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run happens: `root` is the copy, `directory` the one that the command starts in, `reports` and
    `scratch` (its TMPDIR) lie beside the copy, `base` is the tree that it was copied from."""

    root: Path
    directory: Path
    reports: Path
    scratch: Path
    base: Path


@dataclass
class Sandbox:
    """`with Sandbox(project) as sandbox: ...`. `linked`: large data that the copies share with the project by links."""

    project: Project
    linked: list[str] = field(default_factory=list)
    _worktree: worktree.Worktree | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __enter__(self) -> Self:
        # a short name: Unix sockets below it may have 104 characters in all
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
            self._worktree = worktree.add(repository, self.home / f"torchmigrate-{self.home.name}")
            copier.add(repository.files(anchor))
            copier.add(repository.ignored())
            if self._worktree:
                shutil.copy2(self._worktree.path / ".git", self.original / ".git")
        else:
            copier.add_all()
        self.linked = copier.linked
        duplicate(os.fspath(self.original), os.fspath(self.rewritten))

    @contextmanager
    def fresh(self, base: Path) -> Iterator[Place]:
        """A copy of one of the two trees for one run; gone afterwards."""
        home = self.home / str(next(self._numbers))
        root = home / self._name
        place = Place(root, self.project.within(root, self.project.directory), home / "reports", home / "t", base)
        try:
            place.reports.mkdir(parents=True)
            place.scratch.mkdir()
            duplicate(os.fspath(base), os.fspath(place.root))
            yield place
        finally:
            _delete(home)

    def _remove(self) -> None:
        if self._worktree:
            worktree.remove(self._worktree)
        _delete(self.home)


def _delete(directory: Path) -> None:
    """Also what a program has made read-only."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        for path in directory.rglob("*"):
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(directory, ignore_errors=True)
