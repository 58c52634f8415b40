"""Find the files below the paths of the command line, by git or by a walk; each real file occurs once."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torchmigrate.base import file_io, system
from torchmigrate.base.globs import Globs, Names
from torchmigrate.config.settings import Settings

SUFFIXES = (".py", ".pyi", ".ipynb")
# Build output, which a walk skips unless the user names it. With git, .gitignore decides.
_WALK_SKIPS = frozenset(("build", "dist", "_build"))
_FIRST_LINE = 128  # bytes of a script's first line that are read: Linux reads no more


class TextGlobs(Protocol):
    """Globs of the files that are not Python: those that a run reads, and those that any rule can read."""

    @property
    def wanted(self) -> Names: ...

    @property
    def readable(self) -> Names: ...


@dataclass(frozen=True, slots=True)
class DiscoveredFile:
    """A file to read (real path), or why it is left out (`skipped_reason`) or cannot be read (`error`)."""

    path: Path
    skipped_reason: str | None = None
    error: str | None = None
    text: bool = False  # not Python: read by text rules (project/text_rules.py)
    named: bool = False  # given on the command line


def discover(paths: Sequence[Path], settings: Settings, rules: TextGlobs | None = None) -> list[DiscoveredFile]:
    """Return all Python files, scripts, notebooks and files that `rules` read below the paths, sorted."""
    collector = _Collector(settings, rules)
    for path in paths or [Path()]:
        collector.add(os.fspath(path))
    return sorted(collector.found.values(), key=lambda file: os.fspath(file.path))


def exclusion(path: Path, settings: Settings) -> str | None:
    """Return the pattern that excludes a path, or None; the path need not exist."""
    collector = _Collector(settings, None)
    return collector.excluded(os.path.abspath(path)) or collector.excluded(os.path.realpath(path))


class _Collector:
    """Collects the files below the paths of the command line, in `found` by path."""

    def __init__(self, settings: Settings, rules: TextGlobs | None) -> None:
        self.rules = rules
        self.root = os.path.realpath(settings.root)
        self.default = Globs(settings.exclude)
        self.extra = Globs(settings.extend_exclude)
        self.found: dict[str, DiscoveredFile] = {}
        self.tops = [self.root]
        self._real: dict[str, bool] = {}  # by directory: whether no symlink is on the way to it

    def add(self, path: str) -> None:
        """Add one path from the command line, following it if it is a symlink, as the user named it."""
        real = os.path.realpath(path)
        if not os.path.exists(real):
            broken = os.path.islink(path)
            error = _broken_link_message(path) if broken else "no such file or directory"
            self.found[os.path.abspath(path)] = DiscoveredFile(Path(os.path.abspath(path)), error=error, named=True)
        elif excluded := self.excluded(os.path.abspath(path)) or self.excluded(real):
            self._skip(real, excluded)
        elif os.path.isdir(real):
            self._add_directory(real)
        elif os.path.isfile(real):
            text = (
                not real.endswith(SUFFIXES)
                and self.rules is not None
                and self.rules.readable.match(system.slashed(real))
            )
            self.found[real] = DiscoveredFile(Path(real), text=text, named=True)
        else:
            self._refuse(real, "not a regular file")

    def _wants(self, path: str) -> bool:
        return path.endswith(SUFFIXES) or self._is_text(path) or _is_script(path)

    def _is_text(self, path: str) -> bool:
        return not path.endswith(SUFFIXES) and self.rules is not None and self.rules.wanted.match(system.slashed(path))

    def excluded(self, path: str) -> str | None:
        """Return the pattern that excludes an absolute path, or None; paths outside of the root are not excluded."""
        inside = system.relative(path, self.root)
        if inside == "." or inside.startswith(".."):
            return None
        return self.default.match(inside) or self.extra.match(inside)

    def _add_file(self, real: str, text: bool) -> None:
        known = self.found.get(real)
        if "{{" in system.relative(real, self.root):  # a template of cookiecutter or copier
            self.found[real] = DiscoveredFile(Path(real), skipped_reason="a template: its name is filled in later")
        elif known is None or known.skipped_reason:
            self.found[real] = DiscoveredFile(Path(real), text=text)

    def _skip(self, path: str, pattern: str) -> None:
        self.found.setdefault(path, DiscoveredFile(Path(path), skipped_reason=f"excluded by `{pattern}`"))

    def _refuse(self, path: str, error: str) -> None:
        self.found[path] = DiscoveredFile(Path(path), error=error)

    def _is_inside(self, real: str) -> bool:
        return any(system.is_inside(real, top) for top in self.tops)

    def _add_directory(self, real: str) -> None:
        self.tops.append(real)
        listed = self._list_by_git(real)
        prefix = _prefix(real, self.root)
        if listed is None:
            self._walk(real, prefix)
            return
        relative = _relative_to_root(real, prefix)
        for path in listed:
            self._add_listed(path, relative(path))

    def _list_by_git(self, real: str) -> list[str] | None:
        """Return the absolute paths that git lists, or None outside of git and in a directory that git ignores."""
        from torchmigrate.vcs import git_tree  # a hook names files and asks git nothing

        if (repository := git_tree.repository(Path(real))) is None:
            return None
        top = os.fspath(repository.top)
        names = repository.files(Path(real))
        if not names and repository.ignores(Path(real)):
            return None
        paths = (os.path.join(top, system.native(name)) for name in names)
        return [path for path in paths if system.names_folder(path) or self._wants(path)]

    def _add_listed(self, path: str, inside: str) -> None:
        """Add one path of git's list; `inside` is relative to the root, or "" outside of it."""
        if inside and self.default.match(inside):
            return
        if system.names_folder(path):
            reason = "another git repository: name it to have it read"
            self.found.setdefault(path, DiscoveredFile(Path(path), skipped_reason=reason))
            return
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return  # deleted from the work tree, but still in git's index
        if not self._is_real(os.path.dirname(path)):
            return  # a symlink has replaced its directory in the work tree
        self._add_entry(path, inside, stat.S_ISREG(mode), stat.S_ISLNK(mode))

    def _is_real(self, directory: str) -> bool:
        if directory not in self._real:
            self._real[directory] = os.path.realpath(directory) == directory
        return self._real[directory]

    def _add_entry(self, path: str, inside: str, is_file: bool, is_link: bool) -> None:
        if inside and (pattern := self.extra.match(inside)):
            self._skip(path, pattern)
        elif is_link:
            self._add_link(path)
        elif is_file:
            self._add_file(path, self._is_text(path))

    def _add_link(self, path: str) -> None:
        real = os.path.realpath(path)
        text = not path.endswith(SUFFIXES) and not real.endswith(SUFFIXES)
        if text and not (os.path.isfile(real) and self._is_inside(real)):
            return  # such links usually belong to data sets
        if not os.path.exists(real):
            self._refuse(path, _broken_link_message(path))
        elif os.path.isfile(real):
            if not self._is_inside(real):
                self.found[path] = DiscoveredFile(Path(path), f"a link out of the tree, to {real}")
            elif excluded := self.excluded(real):
                self._skip(real, excluded)
            else:
                self._add_file(real, text)

    def _walk(self, top: str, prefix: str) -> None:
        """Add the files below the directory `top`; `prefix` makes their paths relative to the root."""
        skipped = _WALK_SKIPS | self.default.names
        stack = [(top, prefix)]
        while stack:
            directory, prefix = stack.pop()
            for entry in self._scan(directory):
                name = entry.name
                inside = f"{prefix}{name}"
                if entry.is_dir(follow_symlinks=False):
                    if name in skipped or self.default.match(inside):
                        continue
                    if pattern := self.extra.match(inside):
                        self._skip(entry.path, pattern)
                    elif not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                        stack.append((entry.path, f"{inside}/"))
                elif self._wants(entry.path) and not self.default.match(inside):
                    self._add_entry(entry.path, inside, entry.is_file(follow_symlinks=False), entry.is_symlink())

    def _scan(self, directory: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                yield from entries
        except OSError as error:
            self._refuse(directory, f"cannot read the directory: {error.strerror}")


def _prefix(path: str, root: str) -> str:
    """Return the prefix that makes a name in the directory `path` relative to `root`; "" outside of `root`."""
    inside = system.relative(path, root)
    return "" if inside == "." or inside.startswith("..") else f"{inside}/"


def _relative_to_root(real: str, prefix: str) -> Callable[[str], str]:
    cut = len(os.path.join(real, ""))
    return lambda path: prefix + system.slashed(path[cut:])


def _is_script(path: str) -> bool:
    """Return whether a file whose name has no dot may be executed, and its first line says by Python."""
    if "." in os.path.basename(path):
        return False
    try:
        mode = os.lstat(path).st_mode
        first = file_io.head(path, _FIRST_LINE) if stat.S_ISREG(mode) and mode & stat.S_IXUSR else b""
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first.partition(b"\n")[0]


def _broken_link_message(path: str) -> str:
    return f"broken symlink to {os.readlink(path)}"


@dataclass(frozen=True, slots=True)
class Selection:
    """The files that a run is about: real paths (None: all), and the overlay `texts`, whose files need not exist."""

    paths: frozenset[str] | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def names(self, path: str) -> bool:
        """Return whether this path is selected."""
        return self.paths is None or path in self.paths

    def holds(self, item: DiscoveredFile) -> bool:
        """Return whether a discovered file is selected.

        A directory that was left out is selected if it contains a selected file; a path that does not exist, if the
        user typed it and there is no overlay.
        """
        path = str(item.path)
        if self.paths is None or path in self.paths:
            return True
        if item.error is not None:
            return item.named and not self.texts
        return item.skipped_reason is not None and any(system.is_inside(p, path) for p in self.paths)

    def completed(self, found: Sequence[DiscoveredFile], rules: TextGlobs) -> Sequence[DiscoveredFile]:
        """Return the discovered files, with those of the overlay added or put in place of what was found."""
        if not self.texts:
            return found
        others = [item for item in found if str(item.path) not in self.texts]
        return sorted([*others, *(_overlay_file(path, rules) for path in self.texts)], key=lambda item: str(item.path))


def _overlay_file(path: str, rules: TextGlobs) -> DiscoveredFile:
    text = not path.endswith(SUFFIXES) and bool(rules.readable.match(path))
    return DiscoveredFile(Path(path), text=text, named=True)


EVERYTHING = Selection()
