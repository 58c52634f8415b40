"""One process at a time writes to a project. The system lets a lock go with its process: none is ever left behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmigrate.base.text import UserError

PATIENCE = 10.0  # seconds: a write phase takes milliseconds
_PAUSE = 0.05


@contextlib.contextmanager
def held(directories: Sequence[Path]) -> Iterator[None]:
    """Hold the lock of each directory. Raises UserError where another process does not let go of one. A directory
    that cannot be written to has no lock: what is written is compared with what was read in any case."""
    end = time.monotonic() + PATIENCE
    with contextlib.ExitStack() as stack:
        for directory in sorted({*directories}):  # in one order, so that no two wait for each other
            handle = _opened(directory / "lock")
            if handle is not None:
                stack.callback(os.close, handle)
                _take(handle, end)
        yield


def _opened(file: Path) -> int | None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:
        return None


def _take(handle: int, end: float) -> None:
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
        """Whether the lock of an open file is ours from now on; gone with the process."""
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True

else:

    def acquired(handle: int) -> bool:
        """Whether the lock of an open file is ours from now on; gone with the process."""
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks
        return True
