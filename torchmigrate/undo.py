"""Put back what the last apply wrote; a file that was changed since then is left alone, and said to be."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate import journal as journal_
from torchmigrate import vcs, write
from torchmigrate.errors import UserError
from torchmigrate.journal import Entry, Journal, digest


@dataclass(frozen=True, slots=True)
class Outcome:
    """One file: `done` says what was done, else `refused` says why nothing was."""

    path: Path
    done: str = ""
    refused: str = ""


def undo(path: Path) -> list[Outcome]:
    """Undo the last apply at or below `path`. Raises UserError where there is none."""
    found = journal_.newest(path)
    if found is None:
        raise UserError(f"nothing to undo in {path}", "undo puts back what `torchmigrate apply` wrote on this machine")
    journal, here = found
    _refuse_committed(journal)
    outcomes: list[Outcome] = []
    for entry in sorted(here, key=lambda e: e.new):  # what still may import the helper decides over it
        left = any(o.refused for o in outcomes)
        outcomes.append(_keep(journal, entry) if entry.new and left else _restore(journal, entry))
    here = sorted(here, key=lambda e: e.new)
    for directory in {journal.path(entry).parent for entry in here}:
        write.sweep(directory)
    kept = {e.path for e, o in zip(here, outcomes, strict=True) if o.refused}
    mine = {e.path for e in here}
    journal.keep([e for e in journal.entries if e.path not in mine or e.path in kept])
    return outcomes


def _refuse_committed(journal: Journal) -> None:
    """What was committed is git's to take back."""
    try:
        record = json.loads((journal.directory / "commits.json").read_bytes())
    except OSError:
        return
    repository = vcs.repository(journal.base)
    if repository is None:
        return
    from torchmigrate import commits

    old, new = record["old"][:10], record["new"][:10]
    if commits.is_in_head(repository, record["new"]):
        raise UserError(
            f"the last apply was committed ({old}..{new} on {record['branch']})",
            f"`git reset --keep {old}` takes the commits back, `git revert {old}..{new}` takes them back in new ones",
        )


def _keep(journal: Journal, entry: Entry) -> Outcome:
    path = journal.path(entry)
    if not os.path.lexists(path) or digest(path.read_bytes()) != entry.after:
        return _restore(journal, entry)
    return Outcome(path, refused="a file that was left as it is may import it; undo again once that is settled")


def _restore(journal: Journal, entry: Entry) -> Outcome:
    path = journal.path(entry)
    try:
        if not os.path.lexists(path):
            return Outcome(path, done="was not there") if entry.new else Outcome(path, refused="deleted since")
        return _put_back(path, journal, entry, path.read_bytes())
    except OSError as error:
        return Outcome(path, refused=(error.strerror or str(error)).lower())


def _put_back(path: Path, journal: Journal, entry: Entry, current: bytes) -> Outcome:
    if entry.new:
        if digest(current) != entry.after:
            return Outcome(path, refused="changed since")
        path.unlink()
        return Outcome(path, done="removed")
    if digest(current) == entry.before:
        return Outcome(path, done="was as before")
    original = journal.original(entry)
    if digest(original) != entry.before:
        return Outcome(path, refused="the saved original is damaged")
    if digest(current) != entry.after and not _half(current, journal, entry, original):
        return Outcome(path, refused="changed since")
    (write.overwrite if write.linked(path) else write.replace)(path, original)
    return Outcome(path, done="restored")


def _half(current: bytes, journal: Journal, entry: Entry, original: bytes) -> bool:
    """A hard link is written in place: was the run killed in the middle? New bytes, then old ones, or zeros where
    the file was grown."""
    if not entry.in_place:
        return False
    new = journal.replacement(entry)
    known: Sequence[bytes] = (original, original.ljust(len(new), b"\0"))
    both = min(len(current), len(new))
    at = next((i for i in range(both) if current[i] != new[i]), both)
    return any(len(current) == len(old) and current[at:] == old[at:] for old in known)
