"""A worker process from outside: it is given repositories one by one, ended for their time, and replaced when it
dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from torchmigrate.fleet.child import PATIENCE, receive, send
from torchmigrate.fleet.task import Task, failure

ATTEMPTS = 2  # a repository whose worker died for another reason is done again; one that kills each worker is not
PREFIX = "torchmigrate-fleet-"


def start_line(module: str) -> list[str]:
    """A Python that runs the very torchmigrate that runs here, and imports nothing from the current directory."""
    top = os.fspath(Path(__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {top!r}); from {module} import main; main()"
    return [sys.executable, "-P", "-c", code]


class Workers:
    """One process for each thread that asks. A context manager: all of them end with it."""

    def __init__(self, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._local = threading.local()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __call__(self, data: bytes) -> bytes:
        """An encoded outcome for an encoded task. Never raises for what happens to the process."""
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
        """The outcome; or the status of a process that died; or None, if it was ended for its time."""
        process = self._process()
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process)

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
        _kill(process)
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
                start_line("torchmigrate.fleet.child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which ends the others
            )
            self._running.add(process)
        self._local.process = process
        return process

    def close(self) -> None:
        """End all, in the middle of their work, too."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, set()
        for process in running:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With what it has started, git for one. SIGTERM comes first: it takes away what it has on disk then."""
    for end in ("SIGTERM", "SIGKILL"):
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, getattr(signal, end))
            else:  # pragma: no cover
                process.kill()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.wait(PATIENCE)
            return
