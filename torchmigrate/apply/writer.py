"""Write the files of a plan, and undo an apply."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.apply import journal as journal_
from torchmigrate.apply.journal import Entry, Journal, digest
from torchmigrate.base import file_io, user_folders
from torchmigrate.base.file_io import NotWritten
from torchmigrate.base.text import UserError
from torchmigrate.diagnostics.finding import Changed, Failed
from torchmigrate.vcs import git_tree


def each(changes: Sequence[Changed]) -> Iterator[Changed | Failed]:
    """Write the files, vendored helpers first, and yield the change or the failure of each."""
    lost: list[Path] = []
    for directory in {change.path.parent for change in changes}:
        file_io.sweep(directory)
    for change in sorted(changes, key=lambda c: (not c.new, c.path)):
        error = _write_file(change, lost)
        if error and change.new:
            lost.append(change.path)
        yield Failed(change.path, error) if error else change


def sweep(paths: Sequence[Path]) -> None:
    """Remove temporary files that the last apply at or below each path left, if it was killed."""
    for path in paths:
        for journal, here in itertools.islice(journal_.below(path), 1):
            for directory in {journal.path(entry).parent for entry in here}:
                file_io.sweep(directory)


def _write_file(change: Changed, lost: Sequence[Path]) -> str | None:
    """Write one file, and return an error message, or None; `lost` are helpers that could not be written."""
    helper = next((h for h in lost if change.path.is_relative_to(h.parent)), None)
    if helper and not change.new:
        return f"not written: the helper that it would import, {helper.name}, could not be"
    try:
        file_io.write(change.path, None if change.new else change.before, change.after)
    except NotWritten as error:
        return f"not written: {error}"
    except OSError as error:
        if error.errno == errno.EPERM:  # although the file's mode allows it
            return "not written: the system protects it (another user's file in a shared folder, or `chattr`)"
        return f"not written: {(error.strerror or str(error)).lower()}"
    return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of undo for one file: `done` says what was done, else `refused` says why nothing was."""

    path: Path
    done: str = ""
    refused: str = ""


def undo(path: Path, dry_run: bool = False) -> list[Outcome]:
    """Undo the last apply at or below `path`; raises UserError if there is none, or if it was committed.

    With `dry_run`, return what would come of it, and write nothing.
    """
    journal, here = _newest(path)
    _refuse_committed(journal)
    if dry_run:
        return _undo(journal, here, False)
    with user_folders.held(journal_.places([journal.path(entry) for entry in here])):
        return _undo(*_newest(path))


def _newest(path: Path) -> tuple[Journal, list[Entry]]:
    found = next(journal_.below(path), None)
    if found is None:
        if not os.path.lexists(path):
            raise UserError(
                f"there is no file or directory `{path}`", "`torchmigrate undo --list` names what can be undone"
            )
        where = "this directory" if str(path) == "." else f"`{path}`"
        raise UserError(f"nothing to undo in {where}", "undo puts back what `torchmigrate apply` wrote on this machine")
    return found


def _undo(journal: Journal, here: Sequence[Entry], writes: bool = True) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for entry in sorted(here, key=lambda e: e.new):  # helpers last: they stay if a file stays
        left = any(o.refused for o in outcomes)
        outcomes.append(_keep(journal, entry, writes) if entry.new and left else _restore(journal, entry, writes))
    if not writes:
        return outcomes
    here = sorted(here, key=lambda e: e.new)
    for directory in {journal.path(entry).parent for entry in here}:
        file_io.sweep(directory)
    kept = {e.path for e, o in zip(here, outcomes, strict=True) if o.refused}
    mine = {e.path for e in here}
    with contextlib.suppress(OSError):  # the files are restored already; the next undo finds them in the old state
        journal.keep([e for e in journal.entries if e.path not in mine or e.path in kept])
    return outcomes


def _refuse_committed(journal: Journal) -> None:
    """Raise UserError if the apply was committed: git can take it back then."""
    if committed := is_committed(journal):
        old, new, branch = committed
        raise UserError(
            f"the last apply was committed ({old}..{new} on {branch})",
            f"`git reset --keep {old}` takes the commits back, `git revert {old}..{new}` takes them back in new ones",
        )


def is_committed(journal: Journal) -> tuple[str, str, str] | None:
    """Return the commit before an apply's commits, the last of them and the branch, if HEAD has them, or None."""
    repository = git_tree.repository(journal.base) if journal.commits else None
    if repository is None or journal.commits is None:
        return None
    from torchmigrate.apply import commits

    old, new, branch = (journal.commits[name] for name in ("old", "new", "branch"))
    return (old[:10], new[:10], branch) if commits.is_in_head(repository, new) else None


def _keep(journal: Journal, entry: Entry, writes: bool) -> Outcome:
    """Leave a helper in place that other files may import, unless it was edited or removed since."""
    path = journal.path(entry)
    with contextlib.suppress(OSError):
        if digest(file_io.read(path)) != entry.after:
            return _restore(journal, entry, writes)
    if not os.path.lexists(path):
        return _restore(journal, entry, writes)
    return Outcome(path, refused="a file that was left as it is may import it; undo again once that is settled")


def _restore(journal: Journal, entry: Entry, writes: bool) -> Outcome:
    """Undo one entry if its file is as the apply left it."""
    path = journal.path(entry)
    try:
        if not os.path.lexists(path):
            return Outcome(path, done="was not there") if entry.new else Outcome(path, refused="deleted since")
        if os.path.realpath(path) != os.fspath(path):
            return Outcome(path, refused="a symbolic link leads there now")
        return _put_back(path, journal, entry, file_io.read(path), writes)
    except NotWritten as error:
        return Outcome(path, refused=str(error))
    except OSError as error:
        return Outcome(path, refused=(error.strerror or str(error)).lower())


def _put_back(path: Path, journal: Journal, entry: Entry, current: bytes, writes: bool) -> Outcome:
    """Restore the old content of a file, or remove it if the apply created it."""
    if entry.new:
        if digest(current) != entry.after:
            return Outcome(path, refused="changed since")
        if writes:
            file_io.remove(path, current)
        return Outcome(path, done="removed")
    if digest(current) == entry.before:
        return Outcome(path, done="was as before")
    original = journal.original(entry)
    if digest(original) != entry.before:
        return Outcome(path, refused="the saved original is damaged")
    if digest(current) != entry.after and not _is_partly_written(current, journal, entry, original):
        return Outcome(path, refused="changed since")
    if writes:
        file_io.write(path, current, original)
    return Outcome(path, done="restored")


def _is_partly_written(current: bytes, journal: Journal, entry: Entry, original: bytes) -> bool:
    """Return whether a write in place was killed halfway: bytes are old, new, or zero where the file grew."""
    if not entry.in_place:
        return False
    new = journal.replacement(entry)
    if len(current) not in (len(original), len(new)):
        return False
    size, grown = len(current), min(len(original), len(new))
    mixed = zip(current, original.ljust(size, b"\0"), new.ljust(size, b"\0"), strict=False)
    return all(byte in (old, after) or (byte == 0 and at >= grown) for at, (byte, old, after) in enumerate(mixed))
