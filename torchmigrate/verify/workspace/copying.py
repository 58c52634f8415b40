"""Copies of files: small ones for real, large data as links, so that a data set of 50 GB costs nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from torchmigrate.project.discovery import SUFFIXES

LARGE = 1 << 20  # bytes: larger files that are no source are linked
MANY = 2000  # files: directories with more, and no source, are linked
CACHES = frozenset((
    "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints",
    ".git", ".hg", ".svn",
))  # fmt: skip
_WHOLE = frozenset((".venv", "venv", ".tox", ".nox", ".direnv", "node_modules", "site-packages"))


@dataclass(slots=True)
class Copier:
    """Copies entries of the tree at `source` to the same places below `target`. `linked` names what is only
    linked, relative and slash-separated."""

    source: str
    target: str
    linked: list[str] = field(default_factory=list)

    def add(self, names: Iterable[str]) -> None:
        """Files and directories below `source`. What is not there is passed over: a deletion is part of the state."""
        for name in names:
            name = name.rstrip("/")
            if CACHES.isdisjoint(name.split("/")) and os.path.lexists(os.path.join(self.source, name)):
                os.makedirs(os.path.dirname(os.path.join(self.target, name)), exist_ok=True)
                self._entry(name)

    def add_all(self) -> None:
        """Everything but caches."""
        self._directory("")

    def _entry(self, name: str) -> None:
        path = os.path.join(self.source, name)
        if os.path.isdir(path) and not os.path.islink(path):
            self._directory(name)
        elif os.path.lexists(os.path.join(self.target, name)):
            return  # tracked in a directory that is ignored: it was here first
        elif os.path.islink(path):
            os.symlink(self._link_target(path), os.path.join(self.target, name))
        elif not os.path.isfile(path):
            return  # a socket, a pipe
        elif os.path.getsize(path) > LARGE and not name.endswith(SUFFIXES):
            self._link(name)
        else:
            shutil.copy2(path, os.path.join(self.target, name))

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
        """A real directory with links in it, so that what is written there stays here; only the link if they are
        many."""
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
        """A link that stays in the tree stays as it is; one out of it must not depend on where the copy lies."""
        found = os.readlink(path)
        leads = os.path.normpath(os.path.join(os.path.dirname(path), found))
        inside = leads == self.source or leads.startswith(self.source + os.sep)
        if not inside:
            return leads
        if not os.path.isabs(found):
            return found
        return os.path.join(self.target, os.path.relpath(leads, self.source))


def _is_data(path: str) -> bool:
    """More than `MANY` files below, none of them source. Looks no further than it must."""
    for count, name in enumerate(_names(path), 1):
        if name.endswith(SUFFIXES):
            return False
        if count > MANY:
            return True
    return False


def _names(path: str) -> Iterator[str]:
    for _, directories, names in os.walk(path):
        directories[:] = [d for d in directories if d not in CACHES]
        yield from names


def duplicate(source: str, target: str) -> None:
    """A tree that `Copier` made, once more; links in it that lead to its own root lead to the new one's."""
    for directory, directories, names in os.walk(source):
        there = os.path.join(target, os.path.relpath(directory, source))
        os.makedirs(there, exist_ok=True)
        for name in [*names, *directories]:
            path = os.path.join(directory, name)
            if os.path.islink(path):
                os.symlink(_moved(os.readlink(path), source, target), os.path.join(there, name))
            elif name in names:
                shutil.copy2(path, os.path.join(there, name))


def _moved(link: str, source: str, target: str) -> str:
    return target + link[len(source) :] if link == source or link.startswith(source + os.sep) else link
