"""Run one command and end all of its processes, in a process that lives as long as the command.

Its arguments are a directory, files for stdout and stderr, and the command.

When stdin closes, as when its owner dies, everything that the command started is ended; when the command ends by
itself, the rest gets LINGER seconds. Prints the exit status, -N for signal N. On Linux orphaned processes become our
children, whatever session they are in; elsewhere those in other sessions may escape.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from typing import BinaryIO

from torchmigrate.base import system

LINGER = 5.0  # seconds for leftover processes: resource trackers and loggers end by themselves
GRACE = 2.0  # seconds between SIGTERM and SIGKILL


def main(arguments: list[str]) -> int:
    directory, out, err, *command = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    system.adopt_orphans()
    with open(out, "wb") as stdout, open(err, "wb") as stderr, _empty_stdin() as stdin:
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        try:
            child = subprocess.Popen(command, cwd=directory, **streams, **system.apart())  # type: ignore[call-overload]
        except OSError as error:
            stderr.write(f"{command[0]}: {error.strerror}\n".encode())
            print(127, flush=True)
            return 0
    status = _watch(child.pid)
    _end_all(child.pid if status is None else None)
    if status is not None:
        print(status, flush=True)
    return 0


def _empty_stdin() -> BinaryIO:
    """Return an empty stdin; /dev/null does not do: in some containers it is a plain file with content."""
    reader, writer = os.pipe()
    os.close(writer)
    return os.fdopen(reader, "rb")


def _watch(pid: int) -> int | None:
    """Wait for the command and its leftovers, and return its status (None: stdin closed while it ran)."""
    status: int | None = None
    until = float("inf")
    while time.monotonic() < until:
        if select.select([sys.stdin], [], [], 0.02)[0]:
            return status
        ended = _reap(pid)
        if ended is not None:
            status, until = ended, time.monotonic() + LINGER
        if status is not None and not system.descendants(os.getpid()):
            break
    return status


def _reap(pid: int) -> int | None:
    """Reap all ended children; return the status of `pid` if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                found = os.waitstatus_to_exitcode(ended[1])
    return found


def _end_all(group: int | None) -> None:
    """End all processes below: SIGTERM, after GRACE seconds SIGKILL; `group` is the command's if not reaped."""
    _signal(group, signal.SIGTERM)
    limit = time.monotonic() + GRACE
    while _remaining() and time.monotonic() < limit:
        time.sleep(0.02)
    limit = time.monotonic() + 5 * GRACE
    while _remaining() and time.monotonic() < limit:
        _signal(None, signal.SIGKILL)
        time.sleep(0.02)


def _remaining() -> list[int]:
    _reap(0)
    return system.descendants(os.getpid())


def _signal(group: int | None, number: signal.Signals) -> None:
    targets = system.descendants(os.getpid())
    if group is not None:
        system.signal_group(group, number)
    for target in targets:
        with contextlib.suppress(OSError):
            os.kill(target, number)
