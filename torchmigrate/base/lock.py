"""Lock a project, so that one process at a time writes to it; the system releases a dead process's lock."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.text import UserError

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
    while not acquired(handle):
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


if os.name == "nt":  # pragma: no cover

    def acquired(handle: int) -> bool:
        """Try to lock an open file without waiting, and return whether this process holds the lock."""
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True

else:

    def acquired(handle: int) -> bool:
        """Try to lock an open file without waiting, and return whether this process holds the lock."""
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks
        return True
