"""Writes what a run planned, file by file."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmigrate.base.atomic_write import NotWritten, sweep, write
from torchmigrate.diagnostics.results import Changed, Failed


def each(changes: Sequence[Changed]) -> Iterator[Changed | Failed]:
    """Write the files one by one, vendored helpers first: nothing may import a helper that is not there."""
    lost: list[Path] = []
    for directory in {change.path.parent for change in changes}:
        sweep(directory)
    for change in sorted(changes, key=lambda c: (not c.new, c.path)):
        error = _try(change, lost)
        if error and change.new:
            lost.append(change.path)
        yield Failed(change.path, error) if error else change


def _try(change: Changed, lost: Sequence[Path]) -> str | None:
    helper = next((h for h in lost if change.path.is_relative_to(h.parent)), None)
    if helper and not change.new:
        return f"not written: the helper that it would import, {helper.name}, could not be"
    try:
        write(change.path, None if change.new else change.before, change.after)
    except NotWritten as error:
        return f"not written: {error}"
    except OSError as error:
        if error.errno == errno.EPERM:  # where its mode would allow it
            return "not written: the system protects it (another user's file in a shared folder, or `chattr`)"
        return f"not written: {(error.strerror or str(error)).lower()}"
    return None
