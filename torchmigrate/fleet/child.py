"""The process that does the work, one repository after the other: tasks come on stdin, outcomes go to stdout, each
with its length in front. It ends with its parent."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import struct
import threading
import time
import warnings
from pathlib import Path
from types import FrameType
from typing import BinaryIO

LENGTH = struct.Struct(">Q")
PATIENCE = 25.0  # seconds for a process to end what it does, and to take away what it has on disk
Given = tuple[Path, bytes]


def main() -> None:
    """Until stdin ends."""
    warnings.simplefilter("ignore")  # `ast.parse` warns of the user's own code
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # nothing but outcomes goes to the parent
    for name in [name for name in os.environ if name.startswith("GIT_") and name in _LEADING_ASTRAY]:
        del os.environ[name]
    given: queue.SimpleQueue[Given] = queue.SimpleQueue()
    now: list[Path] = []
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_listen, args=(source, given, now), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt, OSError):  # nobody listens any more
        _serve(given, now, sink)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for scratch in now:
        shutil.rmtree(scratch, ignore_errors=True)  # the parent may be gone


def _serve(given: queue.SimpleQueue[Given], now: list[Path], sink: BinaryIO) -> None:
    from torchmigrate.fleet.task import Task
    from torchmigrate.fleet.work import work

    while True:
        scratch, data = given.get()
        send(sink, work(Task.decode(data), scratch).encode())
        now.remove(scratch)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


_LEADING_ASTRAY = {
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES"),
}


def _listen(source: BinaryIO, given: queue.SimpleQueue[Given], now: list[Path]) -> None:
    """In a thread of its own: a parent that was killed is noticed in the middle of the work."""
    while (place := receive(source)) is not None and (data := receive(source)) is not None:
        now.append(Path(os.fsdecode(place)))
        given.put((now[-1], data))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(0)


def send(stream: BinaryIO, *messages: bytes) -> None:
    """Raises OSError where nobody listens any more."""
    for data in messages:
        stream.write(LENGTH.pack(len(data)))
        stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> bytes | None:
    """The next message; None where there is no whole one."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    data = stream.read(size)
    return data if len(data) == size else None
