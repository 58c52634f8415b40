"""Reads of regular files alone: a FIFO would wait for a writer, and a device may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

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
