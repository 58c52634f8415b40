"""What goes to a worker and what comes back: JSON and bytes, so that nothing of a repository is ever unpickled."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torchmigrate import __version__
from torchmigrate.base import user_cache
from torchmigrate.engine.plan_cache import describing, sources
from torchmigrate.engine.planner import Input
from torchmigrate.project.builder import project_root
from torchmigrate.rules import packs

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


_ASKED = ("mode", "per_pack", "branch", "author", "verify", "score", "isolated", "rev")


def digest_of(task: Task, words: Sequence[str], root: Path | None = None, given: Input | None = None) -> str:
    """`words` name a commit; a plain folder has none, and its files are read instead."""
    asked = json.dumps([*(getattr(task, name) for name in _ASKED), dict(task.flags)], sort_keys=True)
    files: list[str] = []
    if root is not None and given is not None:
        files = sorted(str(item.path) for item in given.found if item.skipped_reason is None)
        files += describing(files, project_root([root]))
    return user_cache.key([*words, asked, __version__, _ourselves()], files)


@functools.cache
def _ourselves() -> str:
    """The code and the rules, which change within a version in a checkout."""
    digest = hashlib.blake2b(digest_size=20)
    code, rules = Path(__file__).parents[1], packs.builtin()
    for top, paths in ((code, map(Path, sources())), (rules, sorted(rules.glob("*/*.toml")))):
        for path in paths:
            data = path.read_bytes()
            digest.update(f"{path.relative_to(top).as_posix()} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()
