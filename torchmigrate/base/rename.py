"""Ask the system what Python has no function for: exchange two files, replace none, who writes to a file."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable

# Flags of renameat2 (Linux) and renameatx_np (macOS).
_NO_REPLACE, _EXCHANGE = (4, 2) if sys.platform == "darwin" else (1, 2)
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)
_AT_FDCWD = -2 if sys.platform == "darwin" else -100


def exchange(one: str, other: str, directory: int | None) -> bool:
    """Exchange two names in one step; return False if the system or the file system cannot. Raises OSError."""
    return _rename(one, other, directory, _EXCHANGE)


def without_replacing(old: str, new: str, directory: int | None) -> bool:
    """Rename a file; return False if nothing here can do so without a risk to replace one. Raises FileExistsError."""
    if _rename(old, new, directory, _NO_REPLACE):
        return True
    try:
        os.link(old, new, src_dir_fd=directory, dst_dir_fd=directory)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        return False
    os.unlink(old, dir_fd=directory)
    return True


def is_written(handle: int) -> bool:
    """Return whether some program has this file open for writing, as far as the system tells: Linux grants no lease."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # another user's file, or a file system without leases
        return False
    return False


def _rename(old: str, new: str, directory: int | None, flag: int) -> bool:
    call = _system_call()
    if call is None:
        return False
    at = _AT_FDCWD if directory is None else directory
    if call(at, os.fsencode(old), at, os.fsencode(new), flag) == 0:
        return True
    import ctypes

    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), new)


@functools.cache
def _system_call() -> Callable[..., int] | None:
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    try:
        import ctypes

        call = getattr(ctypes.CDLL(None, use_errno=True), name) if name else None
    except (OSError, AttributeError):  # a C library without it
        return None
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
        call.restype = ctypes.c_int
    return call
