"""Where what is made on first use is kept."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path


@functools.cache
def cache_folder() -> Path:
    """`$TORCHMIGRATE_CACHE_DIR`, else `torchmigrate` under `$XDG_CACHE_HOME` or `~/.cache`; made if it is not there.

    Where it cannot be written: a new folder that nobody else can (code is loaded from here), for this process alone.
    """
    try:
        folder = _wanted()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return Path(tempfile.mkdtemp(prefix="torchmigrate-"))


def _wanted() -> Path:
    if own := os.environ.get("TORCHMIGRATE_CACHE_DIR"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "torchmigrate"
