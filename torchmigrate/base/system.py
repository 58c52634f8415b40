"""Do what systems and Pythons do differently: paths, processes, renames, parsing. No other module asks which it has."""

from __future__ import annotations

import ast
import contextlib
import errno
import functools
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess


def is_windows() -> bool:
    """Return whether this is Windows, which has other paths, locks and groups of processes."""
    return sys.platform == "win32"


def is_macos() -> bool:
    """Return whether this is macOS, whose libraries start threads that no fork survives."""
    return sys.platform == "darwin"


# ---- paths: inside torchmigrate those of the system; with slashes in settings, reports, and what git is told


def slashed(path: str) -> str:
    """Return a path with slashes between its parts, as git, globs and reports name it."""
    return path.replace(os.sep, "/")


def native(name: str) -> str:
    """Return the path for a name with slashes."""
    return name.replace("/", os.sep)


def names_folder(path: str) -> bool:
    """Return whether a path ends as that of a folder does."""
    return path.endswith(os.sep)


def relative(path: str | os.PathLike[str], start: str | os.PathLike[str]) -> str:
    """Return a path as it is named from a folder, with slashes; Windows has no such name for one on another drive."""
    try:
        return slashed(os.path.relpath(path, start))
    except ValueError:
        return slashed(os.path.abspath(path))


def dotted(path: str, root: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the parts of a path below `root`, as names of modules have them."""
    return tuple(os.path.relpath(path, root).split(os.sep))


def joined(folder: str, *names: str) -> str:
    """Return a path below a folder. It is faster than `os.path.join`, and takes a folder without a separator behind."""
    return os.sep.join((folder, *names))


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path lies below a folder; both are real paths."""
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def cache_home() -> Path:
    """Return the directory for cached data of this user's programs."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():  # another is to be ignored, says the specification: it would lie in some project
        return base
    try:
        if is_windows():
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        return Path.home() / ("Library/Caches" if is_macos() else ".cache")
    except RuntimeError:  # a user without a home directory, as in containers
        return nowhere()


def nowhere() -> Path:
    """Return a path that does not exist and cannot be made."""
    return Path(os.devnull, "no-home-directory")


# ---- users and locks


def user() -> int | None:
    """Return the number of the user whose rights this process has; None on Windows, where files have other owners."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def locked(handle: int) -> bool:
    """Try to lock an open file without waiting, and return whether this process holds the lock.

    The system releases the lock of a dead process. A file system without locks grants each.
    """
    if is_windows():
        import msvcrt

        try:
            os.lseek(handle, 0, os.SEEK_SET)  # it locks from where the file stands
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


# ---- processes


def is_running(process: int) -> bool:
    """Return whether a process runs, as far as the system tells: on Windows the question would end it."""
    if is_windows():
        return False
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def can_fork() -> bool:
    """Return whether workers may be forks of this process, which is faster than starting them anew."""
    return hasattr(os, "fork") and not is_macos()


def apart() -> dict[str, Any]:
    """Return the options of Popen that start the head of a group of its own, which Ctrl-C does not reach."""
    return {"creationflags": _NEW_GROUP} if is_windows() else {"start_new_session": True}


_NEW_GROUP = 0x200  # subprocess.CREATE_NEW_PROCESS_GROUP, which other systems do not name


def ends() -> Sequence[signal.Signals]:
    """Return the signals by which `end` asks a process to end."""
    return [signal.Signals[name] for name in ("SIGTERM", "SIGBREAK") if hasattr(signal, name)]


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """End a process that was started `apart`, and its group: ask first, and wait so long that it can tidy up."""
    import subprocess

    for act in (_ask_to_end, _kill):
        with contextlib.suppress(OSError):
            act(process)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.wait(patience)
            return


def _ask_to_end(process: subprocess.Popen[bytes]) -> None:
    if is_windows():
        process.send_signal(signal.CTRL_BREAK_EVENT)  # type: ignore[attr-defined]
    else:
        os.killpg(process.pid, signal.SIGTERM)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if is_windows():
        import subprocess

        # Windows has no process groups: /T ends the processes that it started with it
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        os.killpg(process.pid, signal.SIGKILL)


def end_what_is_started() -> None:
    """Ask all that this process has started to end; it was started `apart` itself and ignores the signal."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGTERM)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a group of processes, if it is there; only for systems that have groups."""
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def interrupt_main_thread() -> None:
    """Have the main thread do from another one what SIGTERM makes it do, also while it waits."""
    if is_windows():  # `os.kill` ends a process there
        import _thread

        _thread.interrupt_main(signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def adopt_orphans() -> None:
    """Become the parent of processes below this one whose own has ended, where the system knows that: on Linux."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)


_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


def descendants(top: int) -> list[int]:
    """Return the ids of all living processes below one."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(top, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _processes() -> Iterator[tuple[int, int]]:
    """Yield (pid, parent) of all processes but zombies."""
    if not os.path.isdir("/proc/self"):
        import subprocess

        listing = subprocess.run(["ps", "-axo", "pid=,ppid=,stat=,comm="], capture_output=True, text=True).stdout
        rows = (line.split(None, 3) for line in listing.splitlines())
        yield from ((int(r[0]), int(r[1])) for r in rows if not r[2].startswith("Z") and r[3] != "ps")
        return
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                yield int(name), int(parent)


# ---- files

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


# ---- parsing: Python before 3.11.8 counts depth for all parses of the interpreter at once (python/cpython#106905)


def syntax_tree(text: str | bytes) -> ast.Module:
    """Return the syntax tree of a file's text; raises what `ast.parse` does.

    Where a collection of garbage within `ast.parse` parses too, or lets a thread do so, Python 3.11 raises SystemError
    for sound text; then the text is parsed again with no collections.
    """
    tree = _parsed(text, "exec")
    assert isinstance(tree, ast.Module)
    return tree


def expression_tree(text: str) -> ast.expr:
    """Return the syntax tree of an expression's text, as `syntax_tree` does for a file's."""
    tree = _parsed(text, "eval")
    assert isinstance(tree, ast.Expression)
    return tree.body


def _parsed(text: str | bytes, mode: str) -> ast.AST:
    with contextlib.suppress(SystemError):
        return ast.parse(text, mode=mode)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, mode=mode)
    finally:
        if was_enabled:
            gc.enable()
