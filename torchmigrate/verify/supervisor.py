"""Run one command and end all of its processes; a program that needs only the standard library.

python supervisor.py DIRECTORY STDOUT STDERR COMMAND...

When stdin closes, as when its owner dies, everything that the command started is ended; when the command ends by
itself, the rest gets LINGER seconds. Prints the exit status, -N for signal N. On Linux orphaned processes become our
children, whatever session they are in; elsewhere those in other sessions may escape.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO

LINGER = 5.0  # seconds for leftover processes: resource trackers and loggers end by themselves
GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


def main(arguments: list[str]) -> int:
    directory, out, err, *command = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    with open(out, "wb") as stdout, open(err, "wb") as stderr, _empty_stdin() as stdin:
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        try:
            child = subprocess.Popen(command, cwd=directory, start_new_session=True, **streams)  # type: ignore[call-overload]
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
        if status is not None and not _descendants(os.getpid()):
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
    return _descendants(os.getpid())


def _signal(group: int | None, number: signal.Signals) -> None:
    targets = _descendants(os.getpid())
    with contextlib.suppress(OSError):
        if group is not None:
            os.killpg(group, number)
    for target in targets:
        with contextlib.suppress(OSError):
            os.kill(target, number)


def _descendants(top: int) -> list[int]:
    """Return the ids of all living processes below one."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(top, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _processes() -> Iterator[tuple[int, int]]:
    """Yield (pid, parent) of all processes but zombies."""
    if not os.path.isdir("/proc/self"):
        listing = subprocess.run(["ps", "-axo", "pid=,ppid=,stat=,comm="], capture_output=True, text=True).stdout
        rows = (line.split(None, 3) for line in listing.splitlines())
        yield from ((int(r[0]), int(r[1])) for r in rows if not r[2].startswith("Z") and r[3] != "ps")
        return
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                yield int(name), int(parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
