"""`python -m torchmigrate`, which Python starts with the current directory first on its path: a project's, as like as
not, whose `json.py` is none that we mean."""

import os
import sys


def _is_foreign(folder: str) -> bool:
    """Whether it is the current directory, and not that of our own checkout."""
    try:
        ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return os.path.abspath(folder) == os.getcwd() != ours
    except OSError:  # it is gone
        return False


if not sys.flags.safe_path and sys.path and _is_foreign(sys.path[0]):
    del sys.path[0]

from torchmigrate.cli.app import main  # noqa: E402

if __name__ == "__main__":
    main()
