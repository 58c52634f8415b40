"""What `fleet` does in processes of its own, done in this one: most tests of its results need no others."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from torchmigrate.fleet.processes import Workers
from torchmigrate.fleet.task import Task
from torchmigrate.fleet.work import work


def fleet_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each task done here, one at a time."""
    one_at_a_time = threading.Lock()

    def attempt(workers: Workers, task: Task, data: bytes, scratch: str) -> bytes:
        with one_at_a_time:
            return work(Task.decode(data), Path(scratch)).encode()

    monkeypatch.setattr(Workers, "_attempt", attempt)
