"""A dask scheduler and its workers as processes of this machine, and the CPU seconds of what they start."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from distributed import Client

DASK = [sys.executable, "-m", "dask"]
WORKER = ["worker", "--nthreads", "1", "--no-nanny"]


@dataclass
class Cluster:
    """`cpu`: seconds of the processes that killed workers had started, whom nobody waits for."""

    address: str
    workers: list[subprocess.Popen[bytes]]
    cpu: float = field(default=0.0)

    def kill(self) -> None:
        """One worker, by SIGKILL. What it had started ends with it."""
        worker = self.workers.pop()
        self.cpu += sum(sum(child.cpu_times()[:4]) for child in psutil.Process(worker.pid).children())
        ended(worker)


def waited() -> float:
    """CPU seconds of all processes that have ended and were waited for, by us or by one of these."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def cluster(workers: int, scratch: Path) -> Iterator[Cluster]:
    """Up once all workers are there; ended with all of them."""
    file = scratch / "scheduler.json"
    named = ["--scheduler-file", str(file), "--no-dashboard"]
    processes = [started("scheduler", *named, "--host", "127.0.0.1", "--port", "0")]
    processes += [started(*WORKER, *named, "--local-directory", str(scratch)) for _ in range(workers)]
    try:
        while not file.exists():
            time.sleep(0.1)
        address = json.loads(file.read_bytes())["address"]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        made = Cluster(address, processes[1:])
        yield made
        while made.workers:
            made.kill()
    finally:
        for process in processes:
            ended(process)


def started(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*DASK, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
