"""Who does the work: processes of this machine, or a dask cluster. Both give each outcome once, as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

from torchmigrate.base.errors import UserError
from torchmigrate.fleet.process import Workers
from torchmigrate.fleet.task import Outcome, Task

DASK = "dask://"


class Executor(Protocol):
    """Outcomes in the order in which they come, one for each task."""

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]: ...


class Local:
    """So many processes, each with a thread that waits for it. What they need on disk lies below `scratch`."""

    def __init__(self, jobs: int, scratch: Path) -> None:
        self._jobs, self._scratch = jobs, scratch

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        workers = Workers(self._scratch)
        pool = ThreadPoolExecutor(min(self._jobs, len(tasks)))
        try:
            waiting: set[Future[bytes]] = {pool.submit(workers, task.encode()) for task in tasks}
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (Outcome.decode(future.result()) for future in done)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.close()
            pool.shutdown()


def chosen(name: str, jobs: int | None, cores: Callable[[], int], scratch: Path) -> Executor:
    """`local`, or `dask://HOST:PORT`. Raises UserError."""
    if name == "local":
        return Local(jobs or cores(), scratch)
    host, colon, port = name.removeprefix(DASK).rpartition(":")
    if not name.startswith(DASK) or not host or not colon or not port.isdecimal():
        raise UserError(f"--executor {name}: there is no such executor", "`local`, or `dask://HOST:PORT`")
    if jobs is not None:
        raise UserError("-j is for --executor local", "a dask worker does as many at a time as it has threads")
    from torchmigrate.fleet.cluster import Cluster

    return Cluster(f"tcp://{host}:{port}")
