"""Run tasks in processes of this machine or on a dask cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torchmigrate import __version__
from torchmigrate.base.text import UserError
from torchmigrate.fleet.processes import Workers
from torchmigrate.fleet.task import Outcome, Task, failure

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as DaskFuture


DASK = "dask://"


class Executor(Protocol):
    """Runs tasks and yields one outcome for each, in the order in which they finish."""

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]: ...


class Local:
    """An executor with `jobs` processes, each with a thread that waits for it; their files lie below `scratch`."""

    def __init__(self, jobs: int, scratch: Path) -> None:
        self._jobs, self._scratch = jobs, scratch

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        workers = Workers(self._scratch)
        pool = ThreadPoolExecutor(min(self._jobs, len(tasks)))
        try:
            order: dict[Future[bytes], int] = {pool.submit(workers, t.encode()): n for n, t in enumerate(tasks)}
            waiting = {*order}
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (Outcome.decode(future.result()) for future in sorted(done, key=order.__getitem__))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.close()
            pool.shutdown()


def chosen(name: str, jobs: int | None, cores: Callable[[], int], scratch: Path) -> Executor:
    """Return the executor `local` (with `jobs` or `cores()` processes) or `dask://HOST:PORT`; raises UserError."""
    if name == "local":
        return Local(jobs or cores(), scratch)
    host, colon, port = name.removeprefix(DASK).rpartition(":")
    if not name.startswith(DASK) or not host or not colon or not port.isdecimal():
        raise UserError(f"--executor {name}: there is no such executor", "`local`, or `dask://HOST:PORT`")
    if jobs is not None:
        raise UserError("-j is for --executor local", "a dask worker does as many at a time as it has threads")

    return Cluster(f"tcp://{host}:{port}")


_PATIENCE = 10  # seconds for a scheduler to answer, and for the first worker to join
_GONE = "run the same command again once it is back: what is done stays done"


class Cluster:
    """An executor on the dask cluster whose scheduler is at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        client = _connect(self._address)
        try:
            _check_versions(client, self._address)
            yield from _outcomes(client, tasks, self._address)
        finally:
            client.close(timeout=2)


def _connect(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError as error:
        what = f"--executor dask:// needs dask.distributed, which is not installed ({error.name})"
        raise UserError(what, "pip install 'torchmigrate[fleet]'") from None
    try:
        return Client(address, timeout=_PATIENCE, set_as_default=False, heartbeat_interval=5000)
    except (OSError, TimeoutError) as error:
        what = f"no dask scheduler answers at {address}: {error}"
        raise UserError(what, "start one there: dask scheduler --port PORT") from None


def _check_versions(client: Client, address: str) -> None:
    """Raise UserError if there is no worker, or one that runs another version of torchmigrate."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        what = f"the scheduler at {address} has no workers"
        raise UserError(what, f"start some: dask worker {address} --nthreads 1") from None
    versions: dict[str, Any] = client.run(_version, on_error="return")
    for worker, version in sorted(versions.items()):
        if version != __version__:
            what = f"has torchmigrate {version}" if isinstance(version, str) else "has no torchmigrate of today"
            help = f"pip install 'torchmigrate[fleet]=={__version__}' there, and start the worker again"
            raise UserError(f"the worker at {worker} {what}; this is {__version__}", help)


def _version() -> str:
    return __version__


def _outcomes(client: Client, tasks: Sequence[Task], address: str) -> Iterator[Outcome]:
    from distributed import as_completed

    waiting = {client.submit(_work, task.encode(), pure=False): task for task in tasks}
    try:
        for future in as_completed(list(waiting), loop=client.loop):
            outcome = _outcome(future, waiting.pop(future), address)
            future.release()
            yield outcome
    finally:
        client.cancel(list(waiting))


def _outcome(future: DaskFuture, task: Task, address: str) -> Outcome:
    from distributed import KilledWorker

    if future.status == "cancelled" or future.status == "lost":
        raise UserError(f"the dask scheduler at {address} is gone", _GONE)
    error = future.exception()
    if error is None:
        return Outcome.decode(future.result())
    if isinstance(error, KilledWorker):
        return failure(task, "each dask worker that took it died; most likely for lack of memory")
    return failure(task, f"its dask worker failed: {type(error).__name__}: {error}")


def _work(data: bytes) -> bytes:
    """Do a task at a dask worker, in one of its threads; the work itself runs in a separate process."""
    return _workers()(data)


@functools.cache
def _workers() -> Workers:
    return Workers()
