"""The one place that reads and replaces files: regular files only, each replaced in one step."""

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

# Absent on Windows, where no open waits.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """The file, unbuffered. Raises OSError, also where it is none."""
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
    """All of its bytes, or the first `most`. Raises OSError."""
    with opened(path) as file:
        return file.read(most) or b""


def text(path: Path) -> str:
    """As UTF-8, with replacement characters for what is none. Raises OSError."""
    return read(path).decode(errors="replace")


# Short names of their own: the target's may be as long as names can be. After the prefix comes the process.
PREFIX, SUFFIX = ".torchmigrate-", ".tmp"


class NotWritten(Exception):
    """The file was left as it was; says why."""


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Put `after` in place of `before` (None: no such file). Raises NotWritten or OSError, the file intact."""
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
    if linked(target):
        overwrite(target, after)
    else:
        replace(target, after)


def linked(target: Path) -> bool:
    """Has the file a second name? Replacing it would tear the two apart, so it is written in place."""
    return os.stat(target).st_nlink > 1


def replace(target: Path, data: bytes) -> None:
    """The new bytes under the old name in one step, with the old mode and owner."""
    handle, temporary = tempfile.mkstemp(prefix=f"{PREFIX}{os.getpid()}-", suffix=SUFFIX, dir=target.parent)
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


def alone(path: Path, data: bytes) -> None:
    """A file that the user names. A link of that name, which may be the project's, gives way and is not followed; a
    pipe or a device is written to. Raises OSError, the file intact."""
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
            pass  # another's file in a shared directory: it is ours from now on


def _copy_attributes(target: Path, temporary: str) -> None:
    """Extended ones: access lists, labels, notes of the user's. Those that the system keeps to itself stay away."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(target):
                with contextlib.suppress(OSError):
                    os.setxattr(temporary, name, os.getxattr(target, name))


def overwrite(target: Path, data: bytes) -> None:
    """In place, for hard links: grown first, so that a full disk shows before a byte has changed; put back as it was
    where writing fails."""
    with open(target, "r+b", buffering=0) as file:
        before = file.read()
        try:
            if len(data) > len(before) and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), len(before), len(data) - len(before))
            _fill(file, data)
        except OSError:
            with contextlib.suppress(OSError):  # what is half is known to undo
                file.truncate(len(before))
                _fill(file, before)
            raise


def _fill(file: IO[bytes], data: bytes) -> None:
    file.seek(0)
    written = 0
    while written < len(data):
        written += file.write(data[written:]) or 0
    file.truncate(len(data))
    os.fsync(file.fileno())


def sweep(directory: Path) -> None:
    """Remove temp files that a killed run left behind."""
    with contextlib.suppress(OSError):  # one that cannot be read has none of ours
        for litter in directory.glob(f"{PREFIX}*{SUFFIX}"):
            if is_left(litter.name.removeprefix(PREFIX)):
                litter.unlink(missing_ok=True)


def is_left(name: str) -> bool:
    """Whether the process that a temporary name begins with is gone."""
    process = name.partition("-")[0]
    if not process.isdecimal() or os.name == "nt":  # Windows removes no file that is open
        return True
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return False
    except (OSError, OverflowError):
        return True
    return int(process) == 0
