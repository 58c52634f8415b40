"""The journal that `undo` reads: the original files, kept in the user's state folder, where no project reaches."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from torchmigrate.base import file_io, user_folders
from torchmigrate.base.text import UserError
from torchmigrate.config.config_file import common_parent
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.vcs import git_tree

KEPT = 10  # journals per tree, so that undo can be repeated as often
MOST = 500  # journals in all, before those of trees that are gone are removed
_VERSION = 2
_LARGEST = 2**31  # bytes of a manifest, which has some 300 for each file
_INCOMPLETE = "new-"  # prefix of an incomplete journal, followed by the process id
# A number, which is higher than that of any journal before it whatever the clock says, and a digest of the tree's path.
_NAME = re.compile(r"(\d{12})-([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of an apply.

    `originals` holds its old bytes, `size` of them at `start`; the new bytes follow if the file was written in place.
    `before` and `after` are digests.
    """

    path: str  # relative to the journal's base
    new: bool
    before: str
    after: str
    start: int
    size: int
    in_place: int = 0  # size of the new bytes, if they are saved too


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one apply.

    `tree` identifies the directory `base` (device and number), should it move; `commits` are those of `--commit`.
    """

    directory: Path
    base: Path
    entries: tuple[Entry, ...]
    tree: tuple[int, int] = (0, 0)
    made: float = 0.0  # seconds since 1970, for people
    commits: Mapping[str, str] | None = None
    in_git: bool = False  # all files are in a git repository
    lasts: bool = True  # until it is used, not until the machine restarts

    def keep(self, entries: Sequence[Entry]) -> Journal:
        """Keep only these entries, and return the journal with them; without any, it is removed."""
        kept = replace(self, entries=tuple(entries))
        if entries:
            kept.store()
        else:
            shutil.rmtree(self.directory, ignore_errors=True)
        return kept

    def finish(self, written: Sequence[Changed]) -> Journal:
        """Forget the files that were not written; if the journal cannot be updated, all entries stay."""
        done = {_relative(change.path, self.base) for change in written}
        with contextlib.suppress(OSError):
            return self.keep([entry for entry in self.entries if entry.path in done or self._is_torn(entry)])
        return self

    def _is_torn(self, entry: Entry) -> bool:
        """Return whether writing a file in place failed and left it in neither state."""
        with contextlib.suppress(OSError):
            return bool(entry.in_place) and digest(file_io.read(self.path(entry))) != entry.before
        return False

    def note(self, commits: Mapping[str, str]) -> None:
        """Store which commits the apply makes. Raises UserError if that cannot be stored."""
        try:
            if self.directory.is_dir():
                replace(self, commits=commits).store()
        except OSError as error:
            what = f"nothing was committed, for what undo has to know of it could not be saved: {error.strerror}"
            raise UserError(what, "`torchmigrate undo` puts back the files that were written") from None

    def store(self, name: str = "") -> None:
        """Write the manifest, sealed for a directory of this name (default: the one it has). Raises OSError."""
        data = {
            "version": _VERSION,
            "base": os.fspath(self.base),
            "tree": self.tree,
            "made": self.made,
            "commits": self.commits,
            "entries": [asdict(entry) for entry in self.entries],
        }
        body = json.dumps(data).encode()
        seal = _seal(self.directory.parent, name or self.directory.name, body)
        file_io.put(self.directory / "manifest.json", seal.encode() + b"\n" + body)

    def path(self, entry: Entry) -> Path:
        """Return the absolute path of an entry's file."""
        return Path(os.path.normpath(self.base / entry.path))

    def original(self, entry: Entry) -> bytes:
        """Return the saved old bytes of an entry."""
        return self._bytes(entry.start, entry.size)

    def replacement(self, entry: Entry) -> bytes:
        """Return the saved new bytes of an entry, for a file written in place."""
        return self._bytes(entry.start + entry.size, entry.in_place)

    def _bytes(self, start: int, size: int) -> bytes:
        with file_io.open_regular(self.directory / "originals") as file:
            file.seek(start)
            return file.read(size)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _seal(store: Path, name: str, body: bytes) -> str:
    return user_folders.seal(store.parent, name.encode() + b"\0" + body)


def begin(changes: Sequence[Changed]) -> Journal:
    """Save the original files, and return the journal; raises UserError, and then nothing may be written.

    Outside of git the journal is the only way back, so it must last.
    """
    groups = git_tree.by_repository([change.path for change in changes])
    repository = groups[0][0] if len(groups) == 1 else None
    base = repository.top if repository else common_parent([change.path.parent for change in changes])
    in_git = all(found for found, _ in groups)
    problem: OSError | None = None
    for number, folder in enumerate(user_folders.folders()[: None if in_git else 1]):
        try:
            return replace(_save(_opened(folder), base, changes), in_git=in_git, lasts=not number)
        except OSError as error:
            problem = problem or error
    what = "there is no home directory"
    if problem is not None:
        what = f"{problem.filename or problem.filename2 or 'there'}: {(problem.strerror or str(problem)).lower()}"
    help = "free some space there, or point XDG_STATE_HOME to a directory that can be written"
    raise UserError(f"cannot save the originals, so nothing was written: {what}", help)


def _opened(folder: Path) -> Path:
    """Return the directory of journals in a state folder; it is made if need be. Raises OSError."""
    store = user_folders.opened(folder) / "undo"
    store.mkdir(exist_ok=True, mode=0o700)
    user_folders.check(store)
    return store


def places(paths: Sequence[Path]) -> list[Path]:
    """Return the lock files for these files: one per repository, and one for all files outside of any."""
    tops = [str(repository.top) if repository else "" for repository, _ in git_tree.by_repository(paths)]
    for folder in user_folders.folders():
        with contextlib.suppress(OSError):
            # some trees share a lock, so that lock files do not pile up
            return [user_folders.opened(folder) / "locks" / digest(os.fsencode(top))[:3] for top in tops]
    return []


def _save(store: Path, base: Path, changes: Sequence[Changed]) -> Journal:
    """Write a journal to the directory `store`, and remove the oldest ones of its tree."""
    for left in store.glob(f"{_INCOMPLETE}*"):
        if file_io.is_left(left.name.removeprefix(_INCOMPLETE)):
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{_INCOMPLETE}{os.getpid()}-", dir=store))
    try:
        with open(directory / "originals", "wb") as file:
            entries = [_add_original(file, change, base) for change in changes]
            file.flush()
            os.fsync(file.fileno())
        status = os.stat(base)
        journal = Journal(directory, base, tuple(entries), (status.st_dev, status.st_ino), time.time())
        final = _put_in_line(journal, digest(os.fsencode(base))[:16])
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    _remove_old(store, final)
    return replace(journal, directory=final)


def _put_in_line(journal: Journal, key: str) -> Path:
    """Give an incomplete journal its name, a number above all others; from then on undo finds it."""
    store = journal.directory.parent
    number = max((int(name[1]) for name, _ in _journals(store)), default=0)
    while True:
        number += 1
        final = store / f"{number:012d}-{key}"
        journal.store(final.name)
        try:
            os.rename(journal.directory, final)
        except OSError:
            if not final.exists():
                raise
        else:
            return final


def _remove_old(store: Path, newest: Path) -> None:
    """Remove a tree's journals but the last KEPT, and if there are many, the oldest of trees that are gone."""
    found = [directory for name, directory in _journals(store) if directory.name[13:] == newest.name[13:]]
    for old in found[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    everything = [directory for _, directory in _journals(store)]
    for old in everything[MOST:]:
        journal = _load(old)
        if journal is None or not journal.base.exists():
            shutil.rmtree(old, ignore_errors=True)


def _add_original(file: IO[bytes], change: Changed, base: Path) -> Entry:
    start = file.tell()
    file.write(change.before)
    entry = Entry(
        path=_relative(change.path, base),
        new=change.new,
        before=digest(change.before),
        after=digest(change.after),
        start=start,
        size=len(change.before),
    )
    if not change.new and change.path.exists() and file_io.has_hard_links(change.path):
        file.write(change.after)
        entry = replace(entry, in_place=len(change.after))
    return entry


def _relative(path: Path, base: Path) -> str:
    return os.path.relpath(os.path.realpath(path), base)


def below(path: Path) -> Iterator[tuple[Journal, list[Entry]]]:
    """Yield the journals of applies that wrote at or below `path`, the last first, each with its entries there."""
    target = Path(os.path.realpath(path))
    stores = [Path(os.path.realpath(folder)) / "undo" for folder in user_folders.folders()]
    found = sorted((item for store in stores for item in _journals(store)), key=lambda item: item[0][0], reverse=True)
    for _, directory in found:
        if (journal := _load(directory)) is None:
            continue
        journal = replace(journal, base=_moved(journal, target))
        if here := [entry for entry in journal.entries if journal.path(entry).is_relative_to(target)]:
            yield journal, here


def _moved(journal: Journal, target: Path) -> Path:
    """Return where a journal's tree is now: at its path, or else around `target`, if that is the same directory."""
    if journal.base.exists():
        return journal.base
    for up in (target, *target.parents):
        with contextlib.suppress(OSError):
            status = os.stat(up)
            if journal.tree == (status.st_dev, status.st_ino):
                return up
    return journal.base


def _journals(store: Path) -> list[tuple[re.Match[str], Path]]:
    """List the complete journals in a directory that only this user can write to or replace, newest first."""
    try:
        for folder in (store.parent, store):  # with the key beside it
            user_folders.check(folder)
        named = [(name, store / name[0]) for name in map(_NAME.fullmatch, os.listdir(store)) if name]
    except OSError:
        return []
    return sorted(named, key=lambda item: item[0][0], reverse=True)


def _load(directory: Path) -> Journal | None:
    try:
        seal, _, body = file_io.read(directory / "manifest.json", _LARGEST).partition(b"\n")
        if seal.decode() != _seal(directory.parent, directory.name, body):
            return None  # not written here, or damaged
        data = json.loads(body)
        if data["version"] != _VERSION:
            return None
        entries = tuple(Entry(**entry) for entry in data["entries"])
        return Journal(directory, Path(data["base"]), entries, tuple(data["tree"]), data["made"], data["commits"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
