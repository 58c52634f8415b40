"""The worker process, and the parent's pool of them.

A worker does one repository after the other: tasks come on stdin, outcomes go to stdout, each preceded by its length.
It ends with its parent.
"""

from __future__ import annotations

import contextlib
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
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from torchmigrate.base import system
from torchmigrate.fleet.task import Task, failure

LENGTH = struct.Struct(">Q")
PATIENCE = 25.0  # seconds for a process to stop its work and delete its files
_CLEARING = 5.0  # of these, for what still writes into files that are deleted
Given = tuple[Path, bytes]


def main() -> None:
    """Serve tasks until stdin ends."""
    warnings.simplefilter("ignore")  # `ast.parse` warns about the user's code
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
