"""Faults at every call that changes files: the process ends there, or the call fails. Calls are counted as they come;
what is written in one call is also cut in the middle."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from typing import Any

from torchmigrate.base import system

KILLED = 137
_CALLS = (
    *("fsync", "replace", "rename", "mkdir", "rmdir", "unlink", "remove", "link", "symlink", "chmod", "chown"),
    *("fchmod", "fchown", "truncate", "ftruncate", "write", "posix_fallocate", "setxattr"),
)
_FREEING = ("unlink", "remove", "rmdir", "git")  # go on working on a full disk
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Points:
    """Counts, and acts at call number `at`. `errno_`: the call fails instead; with `lasting` all later ones, too."""

    def __init__(self, at: int, errno_: int | None = None, lasting: bool = False) -> None:
        self.at, self.errno, self.lasting = at, errno_, lasting
        self.seen = 0
        self.log: list[str] = []

    def pass_(self, name: str) -> None:
        self.seen += 1
        self.log.append(name)
        if self.errno is None:
            if self.seen == self.at:
                os._exit(KILLED)
        elif (self.seen == self.at or (self.lasting and self.seen > self.at)) and name not in _FREEING:
            raise OSError(self.errno, os.strerror(self.errno))

    def arm(self) -> None:
        """For the rest of this process, which is a child of the test's."""
        for name in _CALLS:
            setattr(os, name, self._before(name, getattr(os, name)))
        os.open = self._os_open(os.open)
        system._rename = self._before("rename", system._rename)
        io.open = builtins.open = self._open(builtins.open)  # type: ignore[assignment]
        import git

        git.cmd.Git.execute = self._around("git", git.cmd.Git.execute)

    def _before(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.pass_(name)
            return real(*arguments, **options)

        return call

    def _around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.pass_(name)
            done = real(*arguments, **options)
            self.pass_(name)
            return done

        return call

    def _os_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if flags & _WRITING:
                self.pass_("open")
            return real(path, flags, *arguments, **options)

        return call

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+"):
                return real(file, mode, *arguments, **options)
            if not isinstance(file, int):
                self.pass_("open")
            opened = real(file, mode, *arguments, **options)
            return _Cut(opened, self) if "b" in mode else opened

        return call


class _Cut:
    """A binary file whose writes come in two halves, with a point before each and none in a buffer."""

    def __init__(self, file: Any, points: Points) -> None:
        self._file, self._points = file, points

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        for part in (data[:half], data[half:]):
            self._points.pass_("write")
            self._file.write(part)
            self._file.flush()
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        self._points.pass_("truncate")
        return int(self._file.truncate(size))

    def __enter__(self) -> _Cut:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


_write = os.write  # not counted


def say(text: str) -> None:
    """To stderr, whatever is armed."""
    _write(2, text.encode())


def in_child(run: Callable[[], int], points: Points, errors: str) -> int:
    """`run`'s exit status in a fork of this process, with the faults armed and stderr in a file."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            handle = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 2)
            os.dup2(handle, 1)
            points.arm()
            status = run()
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


FULL, REFUSED = errno.ENOSPC, errno.EACCES
