"""What keeps files that were made to do harm from doing it: bounds on time and size, processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

SECONDS = 60.0  # of processor time; 12,000 lines take a tenth of it
LARGEST = 20_000_000  # bytes of Python: more is data, and would take gigabytes to parse


class TooSlow(BaseException):
    """Not caught by those who expect an Exception."""


@contextlib.contextmanager
def bounded(seconds: float | None = None) -> Iterator[None]:
    """Raises TooSlow in what runs longer. Without effect on Windows, in other threads, and within itself."""
    timed = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not timed or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        yield
        return

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS if seconds is None else seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def told() -> str:
    """Why a file was not looked into."""
    return f"takes more than {SECONDS:g} seconds to look into, so it was left as it is; please report it"


def died() -> str:
    """Why a file was not looked into."""
    why = "the process that looked into it died, also with this file alone, most likely for lack of memory"
    return f"{why}; it was left as it is; free memory, or exclude it"


@contextlib.contextmanager
def pooled() -> Iterator[None]:
    """Around a pool of processes. Those that are spawned, not forked, must not import from the current directory, which
    is the project's."""
    was = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if was is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = was
