"""The journal that `undo` reads: the original files, kept in `.git/torchmigrate` or the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from torchmigrate.base import file_io, user_cache
from torchmigrate.base.text import UserError
from torchmigrate.config.config_file import common_parent
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.vcs import git_tree

KEPT = 10  # journals per project, so that undo can be repeated as often
_INCOMPLETE = "new-"  # prefix of an incomplete journal, followed by the process id


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
    """The journal of one apply."""

    directory: Path
    base: Path
    entries: tuple[Entry, ...]
    in_git: bool = False  # all files are in a git repository

    def keep(self, entries: Sequence[Entry]) -> None:
        """Keep only these entries; without any, the journal is removed."""
        if entries:
            _manifest(self.directory, self.base, entries)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def finish(self, written: Sequence[Changed]) -> None:
        """Forget the files that were not written; if the journal cannot be updated, all entries stay."""
        done = {_relative(change.path, self.base) for change in written}
        with contextlib.suppress(OSError):
            self.keep([entry for entry in self.entries if entry.path in done or self._is_torn(entry)])

    def _is_torn(self, entry: Entry) -> bool:
        """Return whether writing a file in place failed and left it in neither state."""
        with contextlib.suppress(OSError):
            return bool(entry.in_place) and digest(file_io.read(self.path(entry))) != entry.before
        return False

    def note(self, name: str, data: bytes) -> None:
        """Store data that `undo` needs in the journal. Raises UserError if it cannot be stored."""
        try:
            if self.directory.is_dir():
                file_io.replace(self.directory / name, data)
        except OSError as error:
            what = f"nothing was committed, for what undo has to know of it could not be saved: {error.strerror}"
            raise UserError(what, "`torchmigrate undo` puts back the files that were written") from None

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


def begin(changes: Sequence[Changed]) -> Journal:
    """Save the original files, and return the journal; raises UserError, and then nothing may be written."""
    groups = git_tree.by_repository([change.path for change in changes])
    repository = groups[0][0] if len(groups) == 1 else None
    base = repository.top if repository else common_parent([change.path.parent for change in changes])
    stores = [found for found in (_store_in_git(repository),) if found]
    problem: OSError | None = None
    for store in (*stores, _cache() / digest(os.fsencode(base))[:16]):
        try:
            return replace(_save(store, base, changes), in_git=all(found for found, _ in groups))
        except OSError as error:
            problem = error
    assert problem is not None
    what = f"{problem.filename or problem.filename2 or 'there'}: {(problem.strerror or str(problem)).lower()}"
    help = "free some space there, or point XDG_CACHE_HOME to a directory that can be written"
    raise UserError(f"cannot save the originals, so nothing was written: {what}", help)


def _store_in_git(repository: git_tree.Repository | None) -> Path | None:
    """Return the directory for a repository's journals, or None; a symbolic link is refused, as we delete there."""
    if repository is None:
        return None
    store = repository.git_dir / "torchmigrate"
    return None if store.is_symlink() else store


def places(paths: Sequence[Path]) -> list[Path]:
    """Return the directories to lock for these files: one per repository, and one for all files outside of any."""
    stores = [_store_in_git(repository) for repository, _ in git_tree.by_repository(paths)]
    return [store or _cache() for store in stores]


def _save(store: Path, base: Path, changes: Sequence[Changed]) -> Journal:
    """Write a journal to the directory `store`, and remove the oldest ones there."""
    store.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in store.glob(f"{_INCOMPLETE}*"):
        if file_io.is_left(left.name.removeprefix(_INCOMPLETE)):
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{_INCOMPLETE}{os.getpid()}-", dir=store))
    try:
        with open(directory / "originals", "wb") as file:
            entries = [_add_original(file, change, base) for change in changes]
            file.flush()
            os.fsync(file.fileno())
        _manifest(directory, base, entries)
        final = store / f"{time.time_ns():020d}"
        os.rename(directory, final)  # from here on the journal is complete, and undo finds it
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    for old in _journals(store)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return Journal(final, base, tuple(entries))


def _add_original(file: object, change: Changed, base: Path) -> Entry:
    start = file.tell()  # type: ignore[attr-defined]
    file.write(change.before)  # type: ignore[attr-defined]
    entry = Entry(
        path=_relative(change.path, base),
        new=change.new,
        before=digest(change.before),
        after=digest(change.after),
        start=start,
        size=len(change.before),
    )
    if not change.new and change.path.exists() and file_io.has_hard_links(change.path):
        file.write(change.after)  # type: ignore[attr-defined]
        entry = replace(entry, in_place=len(change.after))
    return entry


def _relative(path: Path, base: Path) -> str:
    return os.path.relpath(os.path.realpath(path), base)


def _manifest(directory: Path, base: Path, entries: Sequence[Entry]) -> None:
    data = {"version": 1, "base": os.fspath(base), "entries": [asdict(entry) for entry in entries]}
    file_io.alone(directory / "manifest.json", json.dumps(data).encode())


def newest(path: Path) -> tuple[Journal, list[Entry]] | None:
    """Return the journal of the last apply that wrote at or below `path`, and its entries there, or None."""
    target = Path(os.path.realpath(path))
    found = sorted(_candidates(target), key=lambda item: item[0].name, reverse=True)
    for directory, base in found:
        if (journal := _load(directory, base)) is None:
            continue
        if here := [entry for entry in journal.entries if journal.path(entry).is_relative_to(target)]:
            return journal, here
    return None


def _candidates(target: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield the journals (with their base, if it is known) that may contain files at or below `target`."""
    directory = target if target.is_dir() else target.parent
    repository = git_tree.repository(directory)
    if repository and (store := _store_in_git(repository)):
        # the work tree may have moved; the paths are relative to it
        yield from ((journal, repository.top) for journal in _journals(store))
    cache = _cache()
    for store in cache.iterdir() if cache.is_dir() else ():
        yield from ((journal, None) for journal in _journals(store))


def _journals(store: Path) -> list[Path]:
    """List the complete journals in a directory, newest first."""
    if not store.is_dir():
        return []
    return sorted((d for d in store.iterdir() if d.name.isdecimal() and not d.is_symlink()), reverse=True)


def _load(directory: Path, base: Path | None) -> Journal | None:
    try:
        data = json.loads(file_io.read(directory / "manifest.json"))
        entries = tuple(Entry(**entry) for entry in data["entries"])
        return Journal(directory, base or Path(data["base"]), entries)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # not a journal of torchmigrate, or one of another version


def _cache() -> Path:
    return user_cache.home() / "torchmigrate" / "undo"
