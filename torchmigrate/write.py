"""Atomic writes: temp file beside the resolved target, mode copied, fsync, os.replace. A file is old or new."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmigrate.edits import Changed, Failed

PREFIX, SUFFIX = ".torchmigrate-", ".tmp"  # a short name of its own: the target's may be as long as names can be


class NotWritten(Exception):
    """The file was left as it was; says why."""


def each(changes: Sequence[Changed]) -> Iterator[Changed | Failed]:
    """Write the files one by one, vendored helpers first: nothing may import a helper that is not there."""
    lost: list[Path] = []
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
        return f"not written: {(error.strerror or str(error)).lower()}"
    return None


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Put `after` in place of `before` (None: no such file). Raises NotWritten or OSError, the file intact."""
    target = Path(os.path.realpath(path))
    if before is None:
        if os.path.lexists(target):
            raise NotWritten("a file of that name has appeared since it was planned")
        replace(target, after)
        return
    if target.read_bytes() != before:
        raise NotWritten("it has changed since it was read")
    if not os.access(target, os.W_OK):
        raise NotWritten("it is read-only")
    if linked(target):
        overwrite(target, after)
    else:
        replace(target, after)


def linked(target: Path) -> bool:
    """Has the file a second name? Replacing it would tear the two apart, so it is written in place."""
    return os.stat(target).st_nlink > 1


def replace(target: Path, data: bytes) -> None:
    """The new bytes under the old name in one step, with the old mode and owner."""
    handle, temporary = tempfile.mkstemp(prefix=PREFIX, suffix=SUFFIX, dir=target.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_status(target, temporary)
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too: no litter
        Path(temporary).unlink(missing_ok=True)
        raise


def _copy_status(target: Path, temporary: str) -> None:
    if not target.exists():
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        return
    shutil.copymode(target, temporary)
    status = target.stat()
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(temporary, status.st_uid, status.st_gid)
            shutil.copymode(target, temporary)  # chown drops setuid and setgid
        except PermissionError:
            pass  # another's file in a shared directory: it is ours from now on


def overwrite(target: Path, data: bytes) -> None:
    """In place, for hard links: one write, grown first so that a full disk shows before a byte has changed."""
    with open(target, "r+b", buffering=0) as file:
        old = os.fstat(file.fileno()).st_size
        if len(data) > old and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), old, len(data) - old)
            except OSError:
                file.truncate(old)
                raise
        written = 0
        while written < len(data):
            written += file.write(data[written:]) or 0
        file.truncate(len(data))
        os.fsync(file.fileno())


def sweep(directory: Path) -> None:
    """Remove temp files that a killed run left behind."""
    for litter in directory.glob(f"{PREFIX}*{SUFFIX}"):
        litter.unlink(missing_ok=True)
