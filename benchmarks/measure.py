"""One command run: CPU seconds and wall seconds, status, peak memory of its whole process tree."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLED_EVERY = 0.01  # seconds
TOO_LONG = 124  # status of what was stopped at the limit


@dataclass(frozen=True, slots=True)
class Ran:
    """Seconds and bytes; `peak` is 0 where it was not asked for."""

    cpu: float
    wall: float
    status: int
    peak: int = 0


def run(argv: Sequence[str], cwd: Path, environment: Mapping[str, str], limit: float, memory: bool = False) -> Ran:
    """Run a command to its end, or stop it and its children after `limit` seconds.

    CPU is what wait4 says of the command and all children that it waited for. Memory is the largest of three numbers:
    the sum of PSS (shared pages counted in parts) over the tree, and the high-water mark of its largest process, both
    sampled; and wait4's maxrss, where that is not just ours. What ends within a few samples can read too small.
    """
    start = time.perf_counter()
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        argv, cwd=cwd, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    late = threading.Event()
    timer = threading.Timer(limit, lambda: (late.set(), os.killpg(process.pid, signal.SIGKILL)))
    timer.start()
    sampler = _Sampler(process.pid) if memory else None
    try:
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    except BaseException:  # Ctrl-C: the command is in a session of its own
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        timer.cancel()
        peak = sampler.stop() if sampler else 0
    process.returncode = TOO_LONG if late.is_set() else os.waitstatus_to_exitcode(status)
    peak = max(peak, _own_maxrss(used.ru_maxrss * 1024)) if sampler else 0
    return Ran(used.ru_utime + used.ru_stime, wall, process.returncode, peak)


def _own_maxrss(found: int) -> int:
    """Linux lets a child begin with its parent's maximum: a number that is not above ours says nothing."""
    import resource

    return found if found > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 else 0


class _Sampler:
    """Reads what a process and its descendants hold from /proc; 0 where there is none."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak, self._done = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return self._peak

    def _sample(self) -> None:
        while not self._done.is_set():
            tree = _tree(self._pid)
            high = max(_bytes(pid, "status", "VmHWM:") for pid in tree)
            self._peak = max(self._peak, high, sum(_bytes(pid, "smaps_rollup", "Pss:") for pid in tree))
            self._done.wait(SAMPLED_EVERY)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):  # it has ended
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found


def _bytes(pid: int, file: str, key: str) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(key)), 0)
