"""The plan of a run that would be made again, bit for bit: nothing that it read has changed. Only plans that write
nothing are kept, so that no edit ever comes out of a cache."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from torchmigrate import __version__
from torchmigrate.base import limits, user_cache
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Failed, FileResult, Finding, Fix, Safety, Skipped, Status, Unchanged
from torchmigrate.engine import planner
from torchmigrate.engine.planner import Input, Plan
from torchmigrate.engine.worker import Progress
from torchmigrate.project.context import project_root
from torchmigrate.project.discovery import EVERYTHING, Selection
from torchmigrate.rules import packs
from torchmigrate.source.edits import Edit

_FLEETING = ("cannot be read", "MemoryError", "internal error", limits.told(), limits.died())
WORTH_IT = 50  # files
COARSE = 100_000_000  # nanoseconds by which a file system's clock may be behind

_DESCRIBING = ("pyproject.toml", "setup.cfg", "setup.py")  # what a project says of itself, wherever it says it


@dataclass(frozen=True, slots=True)
class Remembered:
    """A run by what it depends on. `since`, in nanoseconds: what was written later may not be what was read."""

    name: str
    files: Sequence[str]
    since: int

    def plan(self) -> Plan | None:
        """The plan that was stored, or None: there is none, or not one of ours."""
        data = user_cache.load(self.name)
        try:
            return None if data is None else _plan(json.loads(data))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def store(self, plan: Plan) -> None:
        """Keep a plan, unless it writes or a file has changed since the run began."""
        if not all(map(_is_lasting, plan.results)) or self._touched():
            return
        user_cache.store(self.name, json.dumps(_data(plan)).encode())

    def _touched(self) -> bool:
        try:
            return any(os.stat(path).st_mtime_ns >= self.since for path in self.files)
        except OSError:
            return True


def _is_lasting(result: FileResult) -> bool:
    """Whether it would come out again: it is no edit, and no failure of this machine or of ours."""
    if isinstance(result, Failed):
        return not any(words in result.error for words in _FLEETING)
    return isinstance(result, (Unchanged, Skipped))


def plan(
    paths: Sequence[Path], settings: Settings, jobs: int, mode: str, on_progress: Progress | None, only: Selection
) -> Plan:
    """`engine.plan`, or what it gave the last time. Its facts are left out then: whoever needs them asks the engine."""
    given = planner.prepare(paths, settings, only)
    before = _run(paths, given, settings, mode) if only is EVERYTHING and not settings.no_cache else None
    if before and (known := before.plan()):
        return known
    made = planner.plan(paths, settings, jobs, mode, on_progress, only, given)
    if before:
        before.store(made)
    return made


def _run(paths: Sequence[Path], given: Input, settings: Settings, mode: str) -> Remembered | None:
    """This run over a whole project; reads each file. None for single files, which depend on more than they are, and
    where it is not worth it."""
    root, since = project_root(paths), time.time_ns() - COARSE
    if len(given.found) < WORTH_IT or any(path.resolve() != root for path in paths):
        return None
    if any(item.error for item in given.found):
        return None
    read = sorted(str(item.path) for item in given.found if item.skipped_reason is None)
    read += describing(read, root)
    rule_files = (path for top in (packs.builtin(), *settings.rule_paths) for path in top.glob("*/*.toml"))
    words = [__version__, sys.version, mode, str(root), repr(settings), *_code(), *map(repr, given.found)]
    return Remembered(user_cache.key(words, [*read, *sorted(map(str, rule_files))]), read, since)


def describing(read: Iterable[str], root: Path) -> list[str]:
    """Files that are not read for findings, and say which torch a project is for."""
    folders = {os.path.dirname(path) for path in read} | {str(up) for up in (root, *root.parents[:2])}
    tops = [str(path) for path in root.glob("requirements*.txt")]
    named = (f"{folder}/{name}" for folder in folders for name in _DESCRIBING)
    return sorted({*(path for path in named if os.path.isfile(path)), *tops} - {*read})


def sources() -> Iterator[str]:
    """The files of our own code, and the data that it loads."""
    for folder, _, names in sorted(os.walk(os.path.dirname(os.path.dirname(__file__)))):
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".toml")))


def _code() -> Iterator[str]:
    """What we are ourselves, in a checkout that is being worked on, too."""
    for path in sources():
        status = os.stat(path)
        yield f"{path} {status.st_size} {status.st_mtime_ns}"


# ---- as JSON
def _data(plan: Plan) -> dict[str, Any]:
    return {
        "results": [_result_data(result) for result in plan.results],
        "files_seen": plan.files_seen,
        "notes": plan.notes,
        "others": sorted(plan.others),
    }


def _result_data(result: FileResult) -> list[Any]:
    path = str(result.path)
    if isinstance(result, Unchanged):
        return ["unchanged", path, [_finding_data(finding) for finding in result.findings], result.unread]
    if isinstance(result, Skipped):
        return ["skipped", path, result.reason, ""]
    assert isinstance(result, Failed)
    return ["failed", path, result.error, ""]


def _finding_data(finding: Finding) -> list[Any]:
    data = list(astuple(finding))
    data[_FIX] = finding.fix and [
        [astuple(e) for e in finding.fix.edits],
        finding.fix.safety,
        sorted(finding.fix.needs),
    ]
    return data


_TYPES: tuple[type | tuple[type, ...], ...] = (
    *(str, str, int, int, str, list, (list, type(None)), str, int, int, int, int, (int, type(None)), str, bool, bool),
)
_FIX = 6


def _plan(data: Any) -> Plan:
    """Raises ValueError, TypeError or KeyError where it is not what `_data` makes."""
    notes = _strings(data["notes"])
    results = [_result(*row) for row in data["results"]]
    return Plan(results, _of(int, data["files_seen"]), list(notes), frozenset(_strings(data["others"])))


def _result(kind: str, path: str, value: Any, unread: str) -> FileResult:
    if kind == "unchanged":
        return Unchanged(Path(path), tuple(map(_finding, _of(list, value))), unread=_of(str, unread))
    if kind == "skipped":
        return Skipped(Path(path), _of(str, value))
    if kind == "failed":
        return Failed(Path(path), _of(str, value))
    raise ValueError(kind)


def _finding(row: list[Any]) -> Finding:
    for value, kind in zip(row, _TYPES, strict=True):
        _of(kind, value)
    rule, safety, start, end, message, backends, fix, status, *rest = row
    return Finding(
        *(rule, Safety(safety), start, end, message, _strings(backends), fix and _fix(*fix), Status(status), *rest)
    )


def _fix(edits: list[Any], safety: str, needs: list[Any]) -> Fix:
    made = [Edit(_of(int, start), _of(int, end), _of(str, text)) for start, end, text in edits]
    return Fix(tuple(made), Safety(safety), frozenset(_strings(needs)))


def _strings(values: Any) -> tuple[str, ...]:
    return tuple(_of(str, value) for value in _of(list, values))


def _of(kind: type | tuple[type, ...], value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind}")
    return value
