"""Keep what must last, and the locks of projects, in the user's state folder, where no project can put anything."""

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
from collections.abc import Iterator, Sequence
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
