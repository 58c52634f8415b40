"""Refuse writes to the user's project by Python (audit events) and torch.save: copies link to its large data."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
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
_FOLLOWED = ("os.truncate", "os.chmod")


def install(folder: str) -> None:
    """Refuse all further writes of this process below `folder` (a real path); "" protects nothing."""
    if folder:
        sys.addaudithook(_hook(folder))


def protect_torch(folder: str) -> None:
    """Refuse torch.save below `folder`: it writes in C++ and raises no audit event. Call it once torch is imported."""
    from torch import serialization

    if not folder:
        return
    writer: Any = serialization._open_zipfile_writer_file
    start = writer.__init__

    def __init__(self: Any, name: Any, *rest: Any, **options: Any) -> None:
        if isinstance(name, (str, os.PathLike)):
            _check(os.path.realpath(os.fspath(name)), folder)
        start(self, name, *rest, **options)

    writer.__init__ = __init__


def _hook(folder: str) -> Callable[[str, Any], None]:
    def hook(event: str, arguments: Any) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITES and not isinstance(path, int):
                _check(os.path.realpath(os.fsdecode(path)), folder)
        elif event in _FOLLOWED and not isinstance(arguments[0], int):
            _check(os.path.realpath(os.fsdecode(arguments[0])), folder)
        elif event in _ENTRIES:
            for path, directory in _ENTRIES[event]:
                _check(_entry(arguments[path], -1 if directory is None else arguments[directory]), folder)

    return hook


def _entry(path: Any, directory: int) -> str:
    """Return the absolute path of a directory entry, without following it if it is a link."""
    name = os.fsdecode(path).rstrip(os.sep)
    if directory >= 0 and not os.path.isabs(name):
        name = os.path.join(os.path.realpath(f"/proc/self/fd/{directory}"), name)
    return os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))


def _check(place: str, folder: str) -> None:
    if place == folder or place.startswith(folder + os.sep):
        raise PermissionError(f"torchmigrate verify: {place} is only linked here, not copied, and is not written")
