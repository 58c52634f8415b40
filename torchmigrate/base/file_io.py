"""Read and write files, the only place that does: regular files of a bounded size, each replaced in one step.

A file with several links is overwritten in place. No link is followed on the way to a file that is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from torchmigrate.base import limits, system

# O_NONBLOCK and O_NOCTTY do not exist on Windows, where opening a file never waits.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FLAGS |= getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class TooLarge(OSError):
    """A file has more bytes than its reader wants; none were read."""

    def __init__(self, most: int, path: str | os.PathLike[str]) -> None:
        super().__init__(errno.EFBIG, f"larger than {most:,} bytes", os.fspath(path))


def open_regular(path: str | os.PathLike[str], flags: int = 0, directory: int | None = None) -> BinaryIO:
    """Open a file for reading, unbuffered. Raises OSError, also for a directory, a pipe or a device."""
    handle = os.open(path, _FLAGS | flags, dir_fd=directory)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        return os.fdopen(handle, "r+b" if flags & os.O_RDWR else "rb", buffering=0)
    except BaseException:
        os.close(handle)
        raise


def read(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Read a whole file of at most `most` bytes (default: what a run reads of such a file).

    Raises TooLarge before it reads anything, or another OSError.
    """
    with open_regular(path) as file:
        return _read_all(file, limits.largest(os.fspath(path)) if most is None else most, path)


def _read_all(file: BinaryIO, most: int, path: str | os.PathLike[str]) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise TooLarge(most, path)
    data = file.read(size + 1) or b""
    while len(data) > size and (more := file.read(max(0, most + 1 - len(data)))):  # it grew meanwhile
        data += more
    if len(data) > most:
        raise TooLarge(most, path)
    return data


def head(path: str | os.PathLike[str], count: int) -> bytes:
    """Read the first `count` bytes of a file, or all that it has. Raises OSError."""
    with open_regular(path) as file:
        return file.read(count) or b""


def open_own(path: Path) -> int:
    """Open a file of torchmigrate's own for reading and writing; it is made if need be. Raises OSError for a link."""
    handle = os.open(path, _FLAGS | os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "not a file of its own", os.fspath(path))
    return handle


def named(path: Path, most: int = limits.LARGEST) -> bytes:
    """Read a file that the user named, which may be a pipe. Raises OSError."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(most, path)
    return data


def read_text(path: str | os.PathLike[str], most: int = limits.LARGEST_TEXT) -> str:
    """Read a file of at most `most` bytes as UTF-8, with replacement characters for other bytes; raises OSError."""
    return read(path, most).decode(errors="replace")


# Temporary names are not derived from the target's, which may have the maximal length already. The process id follows
# the prefix.
PREFIX, SUFFIX = ".torchmigrate-", ".tmp"
_LINK = "a symbolic link leads there"
_CHANGED = "it has changed since it was read"


class NotWritten(Exception):
    """A file was not written and is unchanged; the message says why."""


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Replace the content `before` (None: no file) by `after`.

    Raises NotWritten if the file is not in the expected state, or OSError; the file is unchanged then.
    """
    target = Path(os.path.abspath(path))
    if before is None:
        add(target, after)
        return
    with _opened(target.parent) as folder:
        folder.change(target.name, before, after)


def add(path: Path, content: bytes) -> None:
    """Make a file where there is none. Raises NotWritten, or OSError."""
    target = Path(os.path.abspath(path))
    with _opened(target.parent) as folder:
        folder.add(target.name, content)


def remove(path: Path, content: bytes) -> None:
    """Remove a file that has this content. Raises NotWritten, or OSError; the file is there then."""
    target = Path(os.path.abspath(path))
    with _opened(target.parent) as folder:
        if folder.content(target.name, len(content)) != content:
            raise NotWritten(_CHANGED)
        aside = folder.free_name()
        os.rename(folder.at(target.name), folder.at(aside), src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
        if not folder.settled(aside, content):  # it was saved meanwhile
            folder.restore(aside, target.name)
            raise NotWritten(_CHANGED)
        folder.unlink(aside)


@dataclass(frozen=True, slots=True)
class _Folder:
    """An open directory, so that a link which takes its place leads no write elsewhere; None: no such thing here."""

    path: Path
    handle: int | None

    def at(self, name: str) -> str:
        """Return how system calls name an entry, next to `dir_fd=handle`."""
        return name if self.handle is not None else os.path.join(self.path, name)

    def status(self, name: str) -> os.stat_result | None:
        """Return an entry's own status, also of a link, or None if there is no such entry."""
        try:
            return os.stat(self.at(name), dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, name: str, flags: int = 0) -> BinaryIO:
        """Open a regular file of this directory; raises NotWritten for a link, or OSError."""
        status = self.status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise NotWritten(_LINK)
        return open_regular(self.at(name), _NO_LINK | flags, self.handle)

    def content(self, name: str, most: int) -> bytes | None:
        """Return a regular file's bytes, or None if it is no such file or has more than `most`."""
        try:
            with self.open(name) as file:
                return _read_all(file, most, name)
        except (OSError, NotWritten):
            return None

    def settled(self, name: str, data: bytes) -> bool:
        """Return whether a file that has lost its name has this content, and no program can write to it any more."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                with self.open(name) as file:
                    if not system.is_written(file.fileno()):
                        return _read_all(file, len(data), name) == data
            except (OSError, NotWritten):
                return False
            if time.monotonic() > end:
                return False
            time.sleep(0.001)

    def free_name(self) -> str:
        import secrets  # a run that writes nothing needs no name

        return f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"

    def unlink(self, name: str) -> None:
        os.unlink(self.at(name), dir_fd=self.handle)

    def temporary(self, data: bytes, like: BinaryIO | None) -> str:
        """Write a temporary file with the mode, owner and attributes of `like`, and return its name."""
        name = self.free_name()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        handle = os.open(self.at(name), flags, 0o600 if like else 0o666, dir_fd=self.handle)
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                if like:
                    _copy_status(like.fileno(), file.fileno())
        except BaseException:
            self._forget(name)
            raise
        return name

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self.unlink(name)

    def add(self, name: str, data: bytes) -> None:
        """Make a new file, and replace nothing."""
        self._refuse_other(name)
        temporary = self.temporary(data, None)
        try:
            if not system.without_replacing(self.at(temporary), self.at(name), self.handle):
                self._refuse_other(name)
                os.replace(self.at(temporary), self.at(name), src_dir_fd=self.handle, dst_dir_fd=self.handle)
        except FileExistsError:
            self._forget(temporary)
            self._refuse_other(name)
            raise
        except BaseException:  # also on Ctrl-C: leave no temporary file behind
            self._forget(temporary)
            raise

    def _refuse_other(self, name: str) -> None:
        if (status := self.status(name)) is not None:
            link = stat.S_ISLNK(status.st_mode)
            raise NotWritten(_LINK if link else "a file of that name has appeared since it was planned")

    def change(self, name: str, before: bytes, after: bytes) -> None:
        """Replace a file's content."""
        with self.open(name) as file:
            if self.content(name, len(before)) != before:
                raise NotWritten(_CHANGED)
            if not os.access(self.path / name, os.W_OK):
                raise NotWritten("it is read-only")
            if os.fstat(file.fileno()).st_nlink > 1:
                with self.open(name, os.O_RDWR) as linked:
                    _overwrite(linked, before, after)
                return
            temporary = self.temporary(after, file)
        try:
            self._exchange(temporary, name, before, after)
        except NotWritten:
            raise
        except BaseException:  # also on Ctrl-C: leave no temporary file behind
            if self.content(temporary, max(len(before), len(after))) in (before, after):
                self._forget(temporary)
            elif self.status(temporary):
                self._keep(temporary)
            raise

    def _exchange(self, temporary: str, name: str, before: bytes, after: bytes) -> None:
        """Put the temporary file in the place of another one, unless that one is not as expected."""
        if self.content(name, len(before)) != before:  # a save while the temporary file was written
            self._forget(temporary)
            raise NotWritten(_CHANGED)
        ours = self.version(temporary)
        if not system.exchange(self.at(temporary), self.at(name), self.handle):
            self.replace(temporary, name)
            return
        if self.settled(temporary, before):
            self.unlink(temporary)
            return
        self.restore(temporary, name, ours)
        raise NotWritten(_CHANGED)

    def replace(self, temporary: str, name: str) -> None:
        """Rename a temporary file to its name, whatever has that name."""
        os.replace(self.at(temporary), self.at(name), src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def version(self, name: str) -> tuple[int, int, int] | None:
        """Return what tells a file from another one of the name, and from itself after a write."""
        status = self.status(name)
        return (status.st_ino, status.st_size, status.st_mtime_ns) if status else None

    def restore(self, saved: str, name: str, expected: tuple[int, int, int] | None = None) -> None:
        """Give a file that somebody saved its name back; `expected` has the name now (None: nothing has it).

        Who saves again meanwhile wins: the file that was saved last keeps the name.
        """
        for _ in range(_TRIES):
            if expected is None:
                with contextlib.suppress(FileExistsError):
                    if system.without_replacing(self.at(saved), self.at(name), self.handle):
                        return
                break
            put = self.version(saved)
            if not system.exchange(self.at(saved), self.at(name), self.handle):
                break
            if self.version(saved) == expected:
                self._forget(saved)
                return
            expected = put  # what came out instead was saved later, and gets the name
        raise NotWritten(f"{_CHANGED}; what was saved meanwhile is in {self._keep(saved)}")

    def _keep(self, saved: str) -> Path:
        """Give a temporary file that holds somebody's work a name that `sweep` leaves alone."""
        kept = saved.removesuffix(SUFFIX) + ".saved"
        os.rename(self.at(saved), self.at(kept), src_dir_fd=self.handle, dst_dir_fd=self.handle)
        return self.path / kept


_PATIENCE = 1.0  # seconds for another program to end a save that it began on the old file
_TRIES = 9  # of saves in a row, each within microseconds of the one before


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Folder]:
    """Open a directory without following a link on the way; raises NotWritten if there is one."""
    if os.path.realpath(path) != os.fspath(path):
        raise NotWritten(_LINK)
    handle = _descend(path) if hasattr(os, "O_PATH") else None
    try:
        yield _Folder(path, handle)
    finally:
        if handle is not None:
            os.close(handle)


def _descend(path: Path) -> int:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path.anchor, flags)
    for part in path.parts[1:]:
        try:
            below = os.open(part, flags, dir_fd=handle)
        except NotADirectoryError:
            raise NotWritten(_LINK) from None
        finally:
            os.close(handle)
        handle = below
    return handle


def has_hard_links(target: Path) -> bool:
    """Return whether the file has a second hard link, so that it must be overwritten in place."""
    return os.stat(target).st_nlink > 1


def put(target: Path, data: bytes) -> None:
    """Write a file of torchmigrate's own, whatever it holds; a link of that name is replaced.

    Raises OSError, also if a link leads to its directory; the file is unchanged then.
    """
    target = Path(os.path.abspath(target))
    try:
        with _opened(target.parent) as folder:
            like: BinaryIO | None = None
            with contextlib.suppress(OSError, NotWritten):
                like = folder.open(target.name)
            try:
                temporary = folder.temporary(data, like)
            finally:
                if like:
                    like.close()
            try:
                folder.replace(temporary, target.name)
            except BaseException:  # also on Ctrl-C: leave no temporary file behind
                folder._forget(temporary)
                raise
    except NotWritten as error:
        raise OSError(errno.ELOOP, str(error), os.fspath(target.parent)) from None


def alone(path: Path, data: bytes) -> None:
    """Write an output file that the user named; raises OSError with the file unchanged.

    A symbolic link, which the project may have planted, is replaced and not followed; a pipe or a device is written to.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    directory = Path(os.path.realpath(path.parent))
    sweep(directory)
    put(directory / path.name, data)


def _copy_status(old: int, new: int) -> None:
    """Copy mode, owner and extended attributes (access lists, security labels, the user's own) between open files."""
    status = os.fstat(old)
    mode = stat.S_IMODE(status.st_mode)
    if hasattr(os, "fchmod"):
        os.fchmod(new, mode)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(old):
                with contextlib.suppress(OSError):
                    os.setxattr(new, name, os.getxattr(old, name))
    if hasattr(os, "fchown") and (status.st_uid, status.st_gid) != (system.user(), os.getegid()):
        try:
            os.fchown(new, status.st_uid, status.st_gid)
            os.fchmod(new, mode)  # fchown drops setuid and setgid
        except PermissionError:
            pass  # another user's file in a shared directory: the new file belongs to this user


def _overwrite(file: BinaryIO, before: bytes, data: bytes) -> None:
    """Overwrite a hard-linked file in place; grow it first, as the disk may be full, and restore it on failure."""
    if _read_all(file, len(before) + 1, "") != before:
        raise NotWritten(_CHANGED)
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
    # Windows cannot tell, and refuses to remove an open file; 0 stands for one's own group
    return not process.isdecimal() or int(process) == 0 or not system.is_running(int(process))
