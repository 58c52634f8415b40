"""Limit time, size and imports, so that malicious files can do no harm."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

SECONDS = 60.0  # of processor time per file; a file of 12,000 lines takes a tenth of that
_AGAIN = 1.0  # seconds between further attempts to stop: Python swallows what is raised in a finalizer
LARGEST = 20_000_000  # bytes of a Python file: a larger one is data, and parsing it would take gigabytes of memory
LARGEST_NOTEBOOK = 200_000_000  # bytes of a notebook, which has its results in it
LARGEST_TEXT = 1_000_000  # bytes of another file


def largest(path: str) -> int:
    """Return how many bytes a Python file or a notebook may have."""
    return LARGEST_NOTEBOOK if path.endswith(".ipynb") else LARGEST


class TooSlow(BaseException):
    """The time limit of `bounded` was exceeded; a BaseException, so that `except Exception` does not catch it."""


@contextlib.contextmanager
def bounded(seconds: float | None = None) -> Iterator[None]:
    """Raise TooSlow once the block has used `seconds` (default: SECONDS) of processor time.

    This has no effect on Windows, outside of the main thread, and inside another `bounded` block.
    """
    timed = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not timed or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        yield
        return

    ended = False

    def stop(*_: object) -> None:
        if not ended:
            raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS if seconds is None else seconds, _AGAIN)
    try:
        yield
    finally:
        ended = True
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def too_slow_message() -> str:
    """Return the error message for a file that exceeded the time limit."""
    return f"takes more than {SECONDS:g} seconds to look into, so it was left as it is; please report it"


def worker_died_message() -> str:
    """Return the error message for a file whose worker process died."""
    why = "the process that looked into it died, also with this file alone, most likely for lack of memory"
    return f"{why}; it was left as it is; free memory, or exclude it"


@contextlib.contextmanager
def safe_import_path() -> Iterator[None]:
    """Set PYTHONSAFEPATH, so that spawned processes import nothing from the current directory."""
    was = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if was is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = was
