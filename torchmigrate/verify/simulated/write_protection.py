"""Watch what Python (by audit events) and torch.save write, before they do.

Writes to the user's project are refused: copies link to its large data. A link that is written anew from its
beginning, as a checkpoint of an earlier run is, gives way to a file of the run's; so does a file that the run's copy of
the project shares with other copies.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# By audit event: which arguments name an entry that is created or removed, each with the argument that holds the file
# descriptor of its directory (-1: none).
_ENTRIES = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "shutil.rmtree": ((0, None),),
}
_FOLLOWED = ("os.truncate", "os.chmod", "os.chown", "os.utime", "sqlite3.connect")


def install(folder: str, project: str = "", shared: str = "") -> None:
    """Refuse all further writes of this process below `folder` (a real path); "" protects nothing.

    `project`: the run's copy, in which files that `shared` has as well become its own before they are written.
    """
    if folder:
        sys.addaudithook(_hook(folder, project, shared))


def protect_torch(folder: str, project: str = "", shared: str = "") -> None:
    """Watch torch.save: it writes in C++ and raises no audit event. Call it once torch is imported."""
    from torch import serialization

    if not folder:
        return
    writer: Any = serialization._open_zipfile_writer_file
    start = writer.__init__

    def __init__(self: Any, name: Any, *rest: Any, **options: Any) -> None:
        if isinstance(name, (str, os.PathLike)):
            _part(os.fspath(name), folder)
            real = os.path.realpath(os.fspath(name))
            _check(real, folder)
            _own(real, project, shared)
        start(self, name, *rest, **options)

    writer.__init__ = __init__


def _hook(folder: str, project: str, shared: str) -> Callable[[str, Any], None]:
    def write(path: Any) -> None:
        real = os.path.realpath(os.fsdecode(path))
        _check(real, folder)
        _own(real, project, shared)

    def hook(event: str, arguments: Any) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITES and not isinstance(path, int):
                if flags & os.O_TRUNC:
                    _part(os.fsdecode(path), folder)
                write(path)
        elif event in _FOLLOWED and isinstance(arguments[0], (str, bytes, os.PathLike)):
            write(arguments[0])
        elif event in _ENTRIES:
            for path, directory in _ENTRIES[event]:
                _check(_entry(arguments[path], -1 if directory is None else arguments[directory]), folder)

    return hook


def _part(name: str, folder: str) -> None:
    """Remove a link into `folder` that lies elsewhere: what is written in its place begins anew."""
    if os.path.islink(name) and _is_below(os.path.realpath(name), folder) and not _is_below(_entry(name, -1), folder):
        os.unlink(name)


def _own(path: str, project: str, shared: str) -> None:
    """Give the run a file of its own if `path` is in its copy, and another name of one in the tree `shared`."""
    if not (project and path.startswith(project + os.sep)):
        return
    other = shared + path[len(project) :]
    if _is_one(path, other):
        with _alone(project):
            if _is_one(path, other):  # no other process was faster
                shutil.copy2(path, f"{path}.torchmigrate")
                os.replace(f"{path}.torchmigrate", path)


def _is_one(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


@contextlib.contextmanager
def _alone(project: str) -> Iterator[None]:
    """Wait until no other process of the run makes a file its own."""
    import fcntl

    with open(os.path.join(os.path.dirname(project), "writing"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _entry(path: Any, directory: int) -> str:
    """Return the absolute path of a directory entry, without following it if it is a link."""
    name = os.fsdecode(path).rstrip(os.sep)
    if directory >= 0 and not os.path.isabs(name):
        name = os.path.join(os.path.realpath(f"/proc/self/fd/{directory}"), name)
    return os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder + os.sep)


def _check(place: str, folder: str) -> None:
    if _is_below(place, folder):
        what = f"{place} is only linked here, not copied, and is not written"
        raise PermissionError(f"torchmigrate verify: {what}: move it out of the project, and run again")
