"""Read and replace project files: regular files only, each replaced in one step, in place if it has several links."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import IO, BinaryIO

# O_NONBLOCK and O_NOCTTY do not exist on Windows, where opening a file never waits.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading, unbuffered. Raises OSError, also for a directory, a pipe or a device."""
    handle = os.open(path, _FLAGS | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        return os.fdopen(handle, "rb", buffering=0)
    except BaseException:
        os.close(handle)
        raise


def read(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """Read the whole file, or at most its first `most` bytes. Raises OSError."""
    with open_regular(path) as file:
        return file.read(most) or b""


def read_text(path: Path) -> str:
    """Read a file as UTF-8, with replacement characters for other bytes; raises OSError."""
    return read(path).decode(errors="replace")


# Temporary names are not derived from the target's, which may have the maximal length already. The process id follows
# the prefix.
PREFIX, SUFFIX = ".torchmigrate-", ".tmp"


class NotWritten(Exception):
    """A file was not written and is unchanged; the message says why."""


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Replace the content `before` (None: no file) by `after`.

    Raises NotWritten if the file is not in the expected state, or OSError; the file is unchanged then.
    """
    target = Path(os.path.abspath(path))
    if os.path.realpath(target.parent) != os.fspath(target.parent) or target.is_symlink():
        raise NotWritten("a symbolic link leads there")
    if before is None:
        if os.path.lexists(target):
            raise NotWritten("a file of that name has appeared since it was planned")
        replace(target, after)
        return
    if read(target) != before:
        raise NotWritten("it has changed since it was read")
    if not os.access(target, os.W_OK):
        raise NotWritten("it is read-only")
    if has_hard_links(target):
        overwrite(target, after)
    else:
        replace(target, after)


def has_hard_links(target: Path) -> bool:
    """Return whether the file has a second hard link, so that it must be overwritten in place."""
    return os.stat(target).st_nlink > 1


def replace(target: Path, data: bytes) -> None:
    """Write `data` to a temporary file and rename it to `target`, with the old file's mode and owner."""
    handle, temporary = tempfile.mkstemp(prefix=f"{PREFIX}{os.getpid()}-", suffix=SUFFIX, dir=target.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_status(target, temporary)
        os.replace(temporary, target)
    except BaseException:  # also on Ctrl-C: leave no temporary file behind
        Path(temporary).unlink(missing_ok=True)
        raise


def alone(path: Path, data: bytes) -> None:
    """Write an output file that the user named; raises OSError with the file unchanged.

    A symbolic link, which the project may have planted, is replaced and not followed; a pipe or a device is written to.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    directory = Path(os.path.realpath(path.parent))
    sweep(directory)
    replace(directory / path.name, data)


def _copy_status(target: Path, temporary: str) -> None:
    if target.is_symlink() or not target.exists():
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        return
    shutil.copymode(target, temporary)
    _copy_attributes(target, temporary)
    status = target.stat()
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(temporary, status.st_uid, status.st_gid)
            shutil.copymode(target, temporary)  # chown drops setuid and setgid
        except PermissionError:
            pass  # another user's file in a shared directory: the new file belongs to this user


def _copy_attributes(target: Path, temporary: str) -> None:
    """Copy extended attributes (access lists, security labels, the user's own) as far as the system allows it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(target):
                with contextlib.suppress(OSError):
                    os.setxattr(temporary, name, os.getxattr(target, name))


def overwrite(target: Path, data: bytes) -> None:
    """Overwrite a hard-linked file in place; grow it first, as the disk may be full, and restore it on failure."""
    with open(target, "r+b", buffering=0) as file:
        before = file.read()
        try:
            if len(data) > len(before) and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), len(before), len(data) - len(before))
            _overwrite_from_start(file, data)
        except OSError:
            with contextlib.suppress(OSError):  # `undo` recognises a file that was overwritten by half
                file.truncate(len(before))
                _overwrite_from_start(file, before)
            raise


def _overwrite_from_start(file: IO[bytes], data: bytes) -> None:
    file.seek(0)
    written = 0
    while written < len(data):
        written += file.write(data[written:]) or 0
    file.truncate(len(data))
    os.fsync(file.fileno())


def sweep(directory: Path) -> None:
    """Remove temporary files that a killed run left in `directory`."""
    with contextlib.suppress(OSError):  # torchmigrate wrote nothing to a directory that cannot be read
        for litter in directory.glob(f"{PREFIX}*{SUFFIX}"):
            if is_left(litter.name.removeprefix(PREFIX)):
                litter.unlink(missing_ok=True)


def is_left(name: str) -> bool:
    """Return whether the process whose id begins a temporary name (its prefix removed) has ended."""
    process = name.partition("-")[0]
    if not process.isdecimal() or os.name == "nt":  # Windows refuses to remove an open file, so trying is safe
        return True
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return False
    except (OSError, OverflowError):
        return True
    return int(process) == 0
