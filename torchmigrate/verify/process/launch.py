"""One command under supervisor.py: with a time limit, and with nothing of it left when it has ended."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_TICK = 0.05
_PATIENCE = 20.0  # seconds for a supervisor to end all: more than its own limits


@dataclass(frozen=True, slots=True)
class Ended:
    """`status` is the exit status, -N for signal N, 127 for a command that could not be started; None: it was
    ended here, for its time (`timed_out`) or because all stops. `seconds` of wall time."""

    status: int | None
    timed_out: bool
    seconds: float


class Stopped(Exception):
    """The run was ended because all of them are to stop."""


def run(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    timeout: float,
    stop: Event,
) -> Ended:
    """Run to the end, to `timeout` seconds or until `stop` is set (raises Stopped). Output goes to the two files."""
    words = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(directory), str(stdout), str(stderr), *command]
    began = time.monotonic()
    supervisor = subprocess.Popen(
        words, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        timed_out = _wait(supervisor, began + timeout, stop)
    finally:
        said = _end(supervisor)
    if stop.is_set():
        raise Stopped
    return Ended(int(said) if said and not timed_out else None, timed_out, time.monotonic() - began)


def _wait(supervisor: subprocess.Popen[bytes], deadline: float, stop: Event) -> bool:
    """Whether its time was up."""
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(_TICK)
            return False
        if time.monotonic() > deadline:
            return True
    return False


def _end(supervisor: subprocess.Popen[bytes]) -> bytes:
    """Closing its stdin is the sign; what it says is the status."""
    assert supervisor.stdin
    with contextlib.suppress(OSError):
        supervisor.stdin.close()
    supervisor.stdin = None  # `communicate` would flush it
    try:
        return supervisor.communicate(timeout=_PATIENCE)[0]
    except subprocess.TimeoutExpired:
        supervisor.kill()
        return supervisor.communicate()[0]
