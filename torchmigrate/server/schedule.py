"""When a file is checked: a while after the last change to it, one file at a time, only as it stands then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

DELAY = 0.2  # seconds after a keystroke: people type faster, and a check takes about as long
LATER = 0.5  # after a file was saved: the editor says so, its watcher says so, and a formatter may save it again


@dataclass(slots=True)
class Schedule:
    """Each name waits once, however often it comes due again meanwhile. `work` sees to its own errors."""

    work: Callable[[str], Awaitable[None]]
    _due: dict[str, tuple[int, float]] = field(default_factory=dict)  # rank, and when
    _earlier: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def due(self, name: str, delay: float = DELAY, rank: int = 0) -> None:
        """Have it done so many seconds from now, and not before; of what is due then, the lowest rank first."""
        loop = asyncio.get_running_loop()
        self._due[name] = min(rank, self._due.get(name, (rank, 0))[0]), loop.time() + delay
        self._earlier.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())

    def forget(self, name: str) -> None:
        self._due.pop(name, None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._due:
            now = loop.time()
            if ready := [name for name, (_, at) in self._due.items() if at <= now]:
                name = min(ready, key=self._due.__getitem__)
                del self._due[name]
                await self.work(name)
            else:
                await self._sleep(min(at for _, at in self._due.values()) - now)

    async def _sleep(self, seconds: float) -> None:
        """Less, where something comes due earlier."""
        self._earlier.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._earlier.wait(), seconds)
