"""A bar on stderr for long work: on a terminal only, and only after a second."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


DELAY = 1.0


class Progress:
    """`with Progress() as progress: ...progress(done, total)`."""

    def __init__(self, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if not self._shown:
            return
        if self._bar is None:
            if time.monotonic() - self._began < DELAY:
                return
            self._start(total)
        assert self._bar is not None and self._task is not None
        self._bar.update(self._task, completed=done, total=total)

    def _start(self, total: int) -> None:
        from rich.console import Console  # 45 ms, for long work only
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("files"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("files", total=total)
        self._bar.start()
