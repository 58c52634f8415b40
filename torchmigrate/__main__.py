"""Run torchmigrate as a module, without the current directory on the import path: its `json.py` may hide Python's."""

import os
import sys


def _is_foreign(folder: str) -> bool:
    """Return whether the folder is the current directory, and not our own checkout."""
    try:
        ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return os.path.abspath(folder) == os.getcwd() != ours
    except OSError:  # the current directory was deleted
        return False


if not sys.flags.safe_path and sys.path and _is_foreign(sys.path[0]):
    del sys.path[0]

from torchmigrate.cli.app import main  # noqa: E402

if __name__ == "__main__":
    main()
