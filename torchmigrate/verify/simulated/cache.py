"""The folder in which built libraries are kept."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path


@functools.cache
def cache_folder() -> Path:
    """Return the cache folder, created if necessary.

    It is `$TORCHMIGRATE_CACHE_DIR`, else `torchmigrate` in `$XDG_CACHE_HOME` or `~/.cache`. If it is not writable, this
    process gets a new private folder: code is loaded from here, so nobody else may write to it.
    """
    try:
        folder = _preferred_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: the user has no home directory
        return Path(tempfile.mkdtemp(prefix="torchmigrate-"))


def _preferred_folder() -> Path:
    if own := os.environ.get("TORCHMIGRATE_CACHE_DIR"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "torchmigrate"
