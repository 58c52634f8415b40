"""What goes to a worker and what comes back: JSON and bytes, so that nothing of a repository is ever unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torchmigrate import __version__

FAILED = "failed"
Summary = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One repository. `flags` are settings of the command line by field name; `known` is the digest of a result that
    is there already; `timeout` in seconds."""

    name: str
    location: str
    rev: str
    is_url: bool
    shown: str
    mode: str  # apply | check
    flags: Mapping[str, Any] = field(default_factory=dict)
    isolated: bool = False
    per_pack: bool = False
    branch: str = "torchmigrate"
    author: tuple[str, str] = ("torchmigrate", "torchmigrate@localhost")
    verify: tuple[str, ...] = ()
    score: bool = True
    timeout: float = 1800.0
    known: str | None = None
    version: str = __version__

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> Task:
        values = json.loads(data)
        values |= {"author": tuple(values["author"]), "verify": tuple(values["verify"])}
        return Task(**values)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task. `files` are by name, to be written beside the summary; None: the known result stands."""

    name: str
    summary: Summary | None
    files: Mapping[str, bytes] = field(default_factory=dict)

    def encode(self) -> bytes:
        head = {"name": self.name, "summary": self.summary, "files": {n: len(data) for n, data in self.files.items()}}
        return json.dumps(head).encode() + b"\n" + b"".join(self.files.values())

    @staticmethod
    def decode(data: bytes) -> Outcome:
        line, _, rest = data.partition(b"\n")
        head = json.loads(line)
        files, at = {}, 0
        for name, size in head["files"].items():
            files[name] = rest[at : at + size]
            at += size
        return Outcome(head["name"], head["summary"], files)


def failure(task: Task, reason: str, log: str = "") -> Outcome:
    """The outcome of a task that came to no end. It has no digest, so the next run tries again."""
    summary: Summary = {"format": 1, "name": task.name, "source": task.shown, "status": FAILED, "reason": reason}
    return Outcome(task.name, summary, {"log.txt": (log or reason + "\n").encode(errors="backslashreplace")})
