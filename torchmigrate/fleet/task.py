"""Tasks and outcomes, sent as JSON and bytes and never unpickled; digests of results; the output folder."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeGuard

from torchmigrate import __version__
from torchmigrate.base import file_io, system, user_folders
from torchmigrate.base.text import UserError
from torchmigrate.engine.plan_cache import describing, sources
from torchmigrate.engine.planner import Input
from torchmigrate.project.context import project_root
from torchmigrate.rules import packs

FAILED = "failed"
Summary = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """The task to migrate one repository in `timeout` seconds.

    `flags` are settings of the command line by field name; `known` is the digest of an existing result, or None.
    """

    name: str
    location: str
    rev: str
    is_url: bool
    shown: str
    mode: str
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
    """The outcome of a task: a summary (None if the known result is valid), and files by name to lie beside it."""

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
    """Return the outcome of a failed task; it has no digest, so the next run tries again."""
    summary: Summary = {"format": 1, "name": task.name, "source": task.shown, "status": FAILED, "reason": reason}
    return Outcome(task.name, summary, {"log.txt": (log or reason + "\n").encode(errors="backslashreplace")})


_ASKED = ("mode", "per_pack", "branch", "author", "verify", "score", "isolated", "rev")


def digest_of(task: Task, words: Sequence[str], root: Path | None = None, given: Input | None = None) -> str:
    """Return the digest of all that a result depends on.

    `words` name the commit. A plain folder has none: there the files of `given` below `root` are digested.
    """
    asked = json.dumps([*(getattr(task, name) for name in _ASKED), dict(task.flags)], sort_keys=True)
    files: list[str] = []
    if root is not None and given is not None:
        files = sorted(str(item.path) for item in given.found if item.skipped_reason is None)
        files += describing(files, project_root([root]))
    return user_folders.key([*words, asked, __version__, _ourselves()], files)


@functools.cache
def _ourselves() -> str:
    """Digest torchmigrate's code and rules, which change within a version in a checkout."""
    digest = hashlib.blake2b(digest_size=20)
    code, rules = Path(__file__).parents[1], packs.builtin()
    for top, paths in ((code, map(Path, sources())), (rules, sorted(rules.glob("*/*.toml")))):
        for path in paths:
            data = file_io.read(path)
            digest.update(f"{path.relative_to(top).as_posix()} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()


FILES = ("changes.patch", "changes.bundle", "findings.json", "verify.json", "body.md", "log.txt")
_MARK = ".torchmigrate-fleet"
_SCRATCH = ".scratch"


_WORDS = ("name", "source", "status")
_NUMBERS = (
    *("files", "changed", "edits", "findings", "fixable", "unsafe", "dropped", "needs_you", "suppressed", "skipped"),
    "errors",
)
_STAGES = ("before", "after")


def is_summary(data: object) -> TypeGuard[Summary]:
    """Return whether data from a file is a summary that reports can be made of, and not damaged or another's."""
    if not isinstance(data, dict) or data.get("format") != 1 or not _all(data, _WORDS, str):
        return False
    run, notes, score = data.get("run", {}), data.get("notes", []), data.get("score")
    if not (isinstance(run, dict) and isinstance(run.get("seconds", 0), (int, float)) and _are_words(notes)):
        return False
    if data["status"] == FAILED:
        return isinstance(data.get("reason", ""), str)
    if not (_all(data, _NUMBERS, int) and _all(data, ("command", "reason"), str)):
        return False
    if not (_are_words(data.get("outputs", [])) and isinstance(data.get("verify", ""), str)):
        return False
    return score is None or (
        isinstance(score, dict)
        and _all(score, ("sites",), int)
        and isinstance(score.get("everywhere"), dict)
        and _all(score["everywhere"], _STAGES, int)
    )


def _all(data: Mapping[str, Any], names: Sequence[str], kind: type) -> bool:
    return all(isinstance(data.get(name), kind) for name in names)


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


class Store:
    """The output folder of one fleet."""

    def __init__(self, top: Path) -> None:
        self.top = Path(os.path.realpath(top))

    @contextlib.contextmanager
    def opened(self) -> Iterator[Path]:
        """Open the output folder, give a scratch folder; raises UserError if it holds other things or is in use."""
        try:
            self._prepare()
        except OSError as error:
            raise UserError(f"cannot write to {self.top}: {(error.strerror or str(error)).lower()}") from None
        with self._marked() as mark:
            if not system.locked(mark.fileno()):
                raise UserError(f"another run is writing to {self.top}", "wait for it, or name another --output")
            scratch = self.top / _SCRATCH
            if scratch.is_symlink():
                scratch.unlink()
            shutil.rmtree(scratch, ignore_errors=True)  # left by a run that was killed
            scratch.mkdir()
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _marked(self) -> IO[bytes]:
        try:
            return os.fdopen(file_io.open_own(self.top / _MARK), "r+b")
        except OSError as error:
            raise UserError(f"{self.top / _MARK}: {(error.strerror or str(error)).lower()}") from None

    def _prepare(self) -> None:
        self.top.mkdir(parents=True, exist_ok=True)
        if not (self.top / _MARK).exists():
            if any(self.top.iterdir()):
                raise UserError(f"{self.top} has other things in it", "name a new folder: --output DIR")
            file_io.put(self.top / _MARK, b"")
        file_io.sweep(self.top)

    def summary(self, name: str) -> Summary | None:
        """Return the stored summary of a repository, or None if it is missing or damaged."""
        try:
            if (self.top / name).is_symlink():
                return None
            data = json.loads(file_io.read(self.top / name / "summary.json"))
        except (OSError, ValueError, RecursionError):
            return None
        return data if is_summary(data) and data["name"] == name else None

    def done(self, name: str) -> str | None:
        """Return the digest of a complete result: its summary and all files that belong to it exist; else None."""
        summary = self.summary(name)
        if summary is None or summary.get("status") == FAILED:
            return None
        there = all((self.top / name / file).is_file() for file in summary.get("outputs", ()))
        digest = summary.get("digest")
        return digest if there and isinstance(digest, str) else None

    def keep(self, outcome: Outcome) -> Summary:
        """Write an outcome, the summary last, so that no incomplete result has one; raises UserError."""
        assert outcome.summary is not None
        folder = self.top / outcome.name
        summary = outcome.summary | {"outputs": sorted(outcome.files)}
        try:
            if folder.is_symlink():
                raise OSError("it is a link")
            folder.mkdir(exist_ok=True)
            (folder / "summary.json").unlink(missing_ok=True)
            file_io.sweep(folder)
            for name in set(FILES) - outcome.files.keys():
                (folder / name).unlink(missing_ok=True)
            self._write(folder, outcome.files)
            file_io.put(folder / "summary.json", json.dumps(summary, indent=2).encode() + b"\n")
        except OSError as error:
            what = f"cannot write to {folder}: {(error.strerror or str(error)).lower()}"
            raise UserError(what, "make room there, and run the same command again: what is done stays done") from None
        return summary

    def _write(self, folder: Path, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            if name in FILES:  # a worker cannot choose other paths
                file_io.put(folder / name, data)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write reports about the whole fleet; raises UserError."""
        try:
            for name, data in files.items():
                file_io.put(self.top / name, data)
        except OSError as error:
            raise UserError(f"cannot write to {self.top}: {(error.strerror or str(error)).lower()}") from None
