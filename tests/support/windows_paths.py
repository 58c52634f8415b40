"""A simulated Windows: paths as it has them, over a folder of this machine."""

from __future__ import annotations

import ntpath
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchmigrate.base import file_io


class Windows:
    """The drive's folder `top` is the folder `root` here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # another one each time, as some answers are kept by path
        self.top = "C:\\" + "\\".join(root.parts[-2:])

    def name(self, inside: str) -> str:
        """Return how Windows names a file that is named with slashes from the folder."""
        return "\\".join((self.top, *inside.split("/")))

    def here(self, path: str | os.PathLike[str]) -> str:
        """Return the path on this machine."""
        text = os.fspath(path).replace("/", "\\")
        if text != self.top and not text.startswith(self.top + "\\"):
            return text
        return "/".join((str(self.root), *text[len(self.top) :].strip("\\").split("\\")))

    def start(self, patch: pytest.MonkeyPatch) -> None:
        """Make Python's functions for paths those of Windows, and those that ask the disk ask this folder."""
        real, listdir, opened = os.path, os.listdir, file_io.open_regular
        paths: Any = types.ModuleType("ntpath")
        paths.__dict__.update(vars(ntpath))

        def translated(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda path, *more: function(self.here(path), *more)

        for asked in ("isfile", "isdir", "exists", "islink"):
            setattr(paths, asked, translated(getattr(real, asked)))
        paths.realpath = paths.normpath = ntpath.normpath
        patch.setattr(os, "path", paths)
        patch.setattr(os, "sep", "\\")
        patch.setattr(os, "listdir", translated(listdir))
        patch.setattr(file_io, "open_regular", translated(opened))
