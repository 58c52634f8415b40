"""What ends a child of multiprocessing, which prints its exception itself and ends by os._exit."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def watch(ended: Callable[[BaseException | None], None], write: Callable[[], None]) -> bool:
    """In a child: tells `ended` its exception, and calls `write` last of all. False where that is so already, or where
    the process has no multiprocessing."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None or hasattr(util._exit_function, "__wrapped__"):
        return False
    leave = util._exit_function

    @functools.wraps(leave)
    def exit_function(*args: Any, **options: Any) -> None:
        ended(sys.exc_info()[1])  # up to Python 3.12 it is called in a `finally`
        try:
            leave(*args, **options)
        finally:
            write()

    util._exit_function = exit_function
    if sys.version_info >= (3, 13):
        _watch_printing(ended)
    return True


def _watch_printing(ended: Callable[[BaseException | None], None]) -> None:
    """Of the exception that ends the child: nothing else of ours runs before multiprocessing prints it."""
    import traceback
    from multiprocessing.process import BaseProcess

    bootstrap: Any = BaseProcess._bootstrap  # type: ignore[attr-defined]
    print_exc = traceback.print_exc

    @functools.wraps(print_exc)
    def printing(*args: Any, **options: Any) -> None:
        if sys._getframe(1).f_code is bootstrap.__code__:
            ended(sys.exc_info()[1])
        print_exc(*args, **options)

    traceback.print_exc = printing
