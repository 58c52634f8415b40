"""Keep what must last, and the locks of projects, in the user's state folder, and results in the user's cache folder.

No project can put anything into the first; what cannot be read, written or trusted of the second counts as empty.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torchmigrate.base import file_io, system
from torchmigrate.base.text import UserError

_KEY_BYTES = 32


def folders() -> list[Path]:
    """Return the folders to keep state in, the best first: the user's state folder, and one that a restart empties."""
    from platformdirs import user_state_path  # imported here, as a run that writes nothing needs none

    temporary = Path(os.path.realpath(tempfile.gettempdir()))
    try:
        home = user_state_path()
    except RuntimeError:  # a user without a home directory, as in containers
        home = system.nowhere()
    home = home if home.is_absolute() else system.nowhere()
    apart = temporary != Path(os.path.realpath(os.curdir))  # where Python finds no other place, it names this one
    return [_own(home), *([_own(temporary)] if apart else [])]


def _own(home: Path) -> Path:
    """Return this user's folder in a state folder: one of a second name if another user has the first, as `sudo`."""
    folder = home / "torchmigrate"
    with contextlib.suppress(OSError):
        if (user := system.user()) not in (None, os.stat(folder).st_uid):
            return home / f"torchmigrate-{user}"
    return folder


def opened(folder: Path) -> Path:
    """Make the folder unless it is there, and return its real path. Raises OSError if others could write to it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check(folder)
    return Path(os.path.realpath(folder))


def check(folder: Path) -> None:
    """Raise OSError unless the folder belongs to this user, and nobody else can write to it."""
    status = os.stat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(folder))
    if (user := system.user()) is not None:
        if status.st_uid != user:
            raise PermissionError(errno.EACCES, "it belongs to another user", os.fspath(folder))
        if status.st_mode & 0o022:
            raise PermissionError(errno.EACCES, "other users can write to it", os.fspath(folder))


def seal(folder: Path, data: bytes) -> str:
    """Return a digest of data that only who can read this user's state folder can make. Raises OSError."""
    return hmac.new(_key(folder), data, hashlib.sha256).hexdigest()


def _key(folder: Path) -> bytes:
    """Return the folder's secret, which is made once."""
    file = folder / "key"
    if not file.exists():
        file_io.sweep(folder)
        with contextlib.suppress(file_io.NotWritten):  # another process was faster
            file_io.add(file, secrets.token_bytes(_KEY_BYTES))
    key = file_io.read(file)
    if len(key) != _KEY_BYTES:
        raise OSError(errno.EINVAL, "it holds no key; remove it", os.fspath(file))
    return key


# ---- locks: one process at a time writes to a project; the system releases the lock of a dead one
PATIENCE = 10.0  # seconds to wait for another process; writing takes milliseconds
_PAUSE = 0.05


@contextlib.contextmanager
def held(files: Sequence[Path]) -> Iterator[None]:
    """Hold the lock of each file that can be made; raises UserError if it is not free after PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    with contextlib.ExitStack() as stack:
        for file in sorted({*files}):  # always in the same order, so that two processes cannot deadlock
            handle = _open_lock_file(file)
            if handle is not None:
                stack.callback(os.close, handle)
                _acquire(handle, end)
        yield


def _open_lock_file(file: Path) -> int | None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return file_io.open_own(file)
    except OSError:
        return None


def _acquire(handle: int, end: float) -> None:
    while not system.locked(handle):
        if time.monotonic() > end:
            who = os.pread(handle, 20, 0).decode(errors="replace").strip() if hasattr(os, "pread") else ""
            process = f"process {who}" if who.isdecimal() else "another process"
            raise UserError(
                f"{process} is writing to this project, so nothing was written",
                "run again once it has come to its end",
            )
        time.sleep(_PAUSE)
    with contextlib.suppress(OSError):
        os.truncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())


FORMAT = b"torchmigrate cache 1\n"
KEPT = 16  # entries; older ones are removed
LIMIT = 32_000_000  # bytes of one entry


def folder() -> Path:
    return system.cache_home() / "torchmigrate" / "results"


def key(words: Iterable[str], files: Iterable[str]) -> str:
    """Return a digest of all that a run depends on: `words` (version, settings), and names and bytes of files."""
    digest = hashlib.blake2b(digest_size=20)
    for word in words:
        digest.update(f"{len(word)}:{word}".encode(errors="surrogateescape"))
    for path in files:
        data = _read_or_error(path)
        digest.update(b"%d:%s%d:" % (len(os.fsencode(path)), os.fsencode(path), len(data)))
        digest.update(data)
    return digest.hexdigest()


def _read_or_error(path: str) -> bytes:
    try:
        return file_io.read(path)
    except OSError as error:
        return f"cannot be read: {error.errno}".encode()


def load(name: str) -> bytes | None:
    """Return the bytes that were stored under a key, or None if there are none or they are damaged."""
    try:
        check(folder())
        data = file_io.read(folder() / name, LIMIT + 200)
    except OSError:
        return None
    head = FORMAT + name.encode() + b"\n"
    body = data[len(head) + 41 :]
    if data != head + _checksum(body) + b"\n" + body:
        return None  # truncated, written by another version, or edited
    return body


def store(name: str, body: bytes) -> None:
    """Store bytes under a key, atomically: concurrent readers see the old entry or the new one."""
    if len(body) > LIMIT:
        return
    try:
        place = folder()
        opened(place)
        file_io.put(
            Path(os.path.realpath(place)) / name, FORMAT + name.encode() + b"\n" + _checksum(body) + b"\n" + body
        )
        _prune(place)
    except OSError:
        return


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=20).hexdigest().encode()


def _prune(place: Path) -> None:
    """Remove all but the newest KEPT files, temporary ones of killed runs included."""
    for old in sorted(_files_with_times(place), reverse=True)[KEPT:]:
        Path(old[1]).unlink(missing_ok=True)


def _files_with_times(place: Path) -> Iterator[tuple[int, str]]:
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.path
