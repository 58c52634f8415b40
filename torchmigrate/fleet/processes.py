"""Run tasks in processes of this machine or on a dask cluster: the worker process, and the parent's pool of them.

A worker does one repository after the other: tasks come on stdin, outcomes go to stdout, each preceded by its length.
It ends with its parent.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from torchmigrate import __version__
from torchmigrate.base import system
from torchmigrate.base.text import UserError
from torchmigrate.fleet.task import Outcome, Task, failure

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as DaskFuture


LENGTH = struct.Struct(">Q")
PATIENCE = 25.0  # seconds for a process to stop its work and delete its files
_CLEARING = 5.0  # of these, for what still writes into files that are deleted
Given = tuple[Path, bytes]


def main() -> None:
    """Serve tasks until stdin ends."""
    warnings.simplefilter("ignore")  # parsing warns about the user's code
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # prints go to stderr: stdout carries outcomes only
    for name in [name for name in os.environ if name.startswith("GIT_") and name in _LEADING_ASTRAY]:
        del os.environ[name]
    given: queue.SimpleQueue[Given] = queue.SimpleQueue()
    now: list[Path] = []
    for number in system.ends():
        signal.signal(number, _interrupt)
    threading.Thread(target=_listen, args=(source, given, now), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt, OSError):  # the parent no longer reads
        _serve(given, now, sink)
    _ignore_ends()
    clear(now)


def clear(folders: Iterable[Path]) -> None:
    """Delete the folders of interrupted work, as the parent may be gone; call it where SIGTERM is ignored.

    What this process started (git, as a rule) may still write there, so it is ended first and then waited for.
    """
    system.end_what_is_started()
    until = time.monotonic() + _CLEARING
    for folder in tuple(folders):
        shutil.rmtree(folder, ignore_errors=True)
        while folder.exists() and time.monotonic() < until:
            time.sleep(0.05)
            shutil.rmtree(folder, ignore_errors=True)


def _serve(given: queue.SimpleQueue[Given], now: list[Path], sink: BinaryIO) -> None:
    from torchmigrate.fleet.task import Task
    from torchmigrate.fleet.work import work

    while True:
        scratch, data = given.get()
        answer = work(Task.decode(data), scratch).encode()
        shutil.rmtree(scratch, ignore_errors=True)  # before the answer: the parent may die once it has that
        send(sink, answer)
        now.remove(scratch)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ignore_ends()
    raise KeyboardInterrupt


def _ignore_ends() -> None:
    for number in system.ends():
        signal.signal(number, signal.SIG_IGN)


_LEADING_ASTRAY = {
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES"),
}


def _listen(source: BinaryIO, given: queue.SimpleQueue[Given], now: list[Path]) -> None:
    """Receive tasks in a thread of its own, so that the end of the parent is noticed in the middle of the work."""
    while (place := receive(source)) is not None and (data := receive(source)) is not None:
        now.append(Path(os.fsdecode(place)))
        given.put((now[-1], data))
    system.interrupt_main_thread()
    time.sleep(PATIENCE - _CLEARING)
    clear(now)  # the main thread has not come to it
    os._exit(0)


def send(stream: BinaryIO, *messages: bytes) -> None:
    """Send messages; raises OSError if nobody reads."""
    for data in messages:
        stream.write(LENGTH.pack(len(data)))
        stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> bytes | None:
    """Return the next message, or None if the stream ends before it is complete."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    data = stream.read(size)
    return data if len(data) == size else None


ATTEMPTS = 2  # tries for a repository whose worker dies: the cause may have been another one
PREFIX = "torchmigrate-fleet-"


def start_line(module: str) -> list[str]:
    """Return the command of a Python that runs this torchmigrate, and imports nothing from the current directory."""
    top = os.fspath(Path(__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {top!r}); from {module} import main; main()"
    return [sys.executable, "-P", "-c", code]


class Workers:
    """A pool with one process for each thread that calls it."""

    def __init__(self, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._local = threading.local()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __call__(self, data: bytes) -> bytes:
        """Return the encoded outcome of an encoded task; the end of a process is an outcome too, not an exception."""
        task = Task.decode(data)
        status = 0
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory(prefix=PREFIX, dir=self._scratch, ignore_cleanup_errors=True) as scratch:
                done = self._attempt(task, data, scratch)
            if isinstance(done, bytes):
                return done
            if done is None:
                return failure(task, f"took more than {task.timeout:g} seconds, and was ended").encode()
            status = done
            if self._closed:
                break
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return failure(task, f"its worker process {how}, {ATTEMPTS} times; most likely for lack of memory").encode()

    def _attempt(self, task: Task, data: bytes, scratch: str) -> bytes | int | None:
        """Return the outcome, or the status of a process that died, or None if the time was up."""
        process = self._process()
        late = threading.Event()

        def end() -> None:
            late.set()
            system.end(process, PATIENCE)

        timer = threading.Timer(task.timeout, end)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdin and process.stdout
            send(process.stdin, os.fsencode(scratch), data)  # type: ignore[arg-type]
            answer = receive(process.stdout)  # type: ignore[arg-type]
        except OSError:
            answer = None
        finally:
            timer.cancel()
        if answer is not None:
            return answer
        system.end(process, PATIENCE)
        with self._lock:
            self._running.discard(process)
        self._local.process = None
        return None if late.is_set() else process.wait()

    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] | None = getattr(self._local, "process", None)
        if process is not None and process.poll() is None:
            return process
        with self._lock:
            if self._closed:
                raise RuntimeError("the run has ended")
            process = subprocess.Popen(
                start_line("torchmigrate.fleet.processes"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                **system.apart(),  # Ctrl-C reaches only the parent, which ends the others
            )
            self._running.add(process)
        self._local.process = process
        return process

    def close(self) -> None:
        """End all processes, even in the middle of their work."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, set()
        for process in running:
            system.end(process, PATIENCE)


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
