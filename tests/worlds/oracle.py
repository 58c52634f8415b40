"""Run the oracle of `tests/support/six_worlds` from a command line: `python -m tests.worlds.oracle --help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from six_worlds.oracle import main

if __name__ == "__main__":
    sys.exit(main())
