"""Keep a run's plan, if it writes nothing, until something that it read has changed."""

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
from torchmigrate.base import limits, user_folders
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Failed, FileResult, Finding, Fix, Safety, Skipped, Status, Unchanged
from torchmigrate.engine import planner
from torchmigrate.engine.planner import Input, Plan
from torchmigrate.engine.worker import Progress
from torchmigrate.project.context import project_root
from torchmigrate.project.discovery import EVERYTHING, Selection
from torchmigrate.rules import packs
from torchmigrate.source.edits import Edit
from torchmigrate.vcs import git_tree

_TRANSIENT = (
    "cannot be read",
    "MemoryError",
    "internal error",
    limits.too_slow_message(),
    limits.worker_died_message(),
)
WORTH_IT = 50  # files
COARSE = 100_000_000  # nanoseconds by which time stamps of a file system may lag

_METADATA_FILES = ("pyproject.toml", "setup.cfg", "setup.py")  # files that may state the torch that a project needs


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A run's cache key and the files that it reads; those written after `since` (ns) may have changed."""

    name: str
    files: Sequence[str]
    since: int

    def plan(self) -> Plan | None:
        """Return the stored plan, or None if there is none or it is damaged."""
        data = user_folders.load(self.name)
        try:
            return None if data is None else _plan_from(json.loads(data))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def store(self, plan: Plan) -> None:
        """Store a plan, unless it writes files or a file has changed since the run began."""
        if not all(map(_is_repeatable, plan.results)) or self._has_changed_files():
            return
        user_folders.store(self.name, json.dumps(_data(plan)).encode())

    def _has_changed_files(self) -> bool:
        try:
            return any(os.stat(path).st_mtime_ns >= self.since for path in self.files)
        except OSError:
            return True


def _is_repeatable(result: FileResult) -> bool:
    """Return whether a result would come out again: no edit, and no failure due to this machine or to a bug."""
    if isinstance(result, Failed):
        return not any(words in result.error for words in _TRANSIENT)
    return isinstance(result, (Unchanged, Skipped))


def plan(
    paths: Sequence[Path], settings: Settings, jobs: int, mode: str, on_progress: Progress | None, only: Selection
) -> Plan:
    """Return the plan of `planner.plan`, from the cache (then without `facts`) if nothing has changed since."""
    given = planner.prepare(paths, settings, only)
    before = _cache_entry(paths, given, settings, mode) if only is EVERYTHING and not settings.no_cache else None
    if before and (known := before.plan()):
        return known
    made = planner.plan(paths, settings, jobs, mode, on_progress, only, given)
    if before:
        before.store(made)
    return made


def _cache_entry(paths: Sequence[Path], given: Input, settings: Settings, mode: str) -> CacheEntry | None:
    """Return the cache entry of a run over a whole project; None for single files and for small projects."""
    root, since = project_root(paths), time.time_ns() - COARSE
    if len(given.found) < WORTH_IT or any(path.resolve() != root for path in paths):
        return None
    if any(item.error for item in given.found) or _is_in_tree(root):
        return None
    read = sorted(str(item.path) for item in given.found if item.skipped_reason is None)
    read += describing(read, root)
    rule_files = (path for top in (packs.builtin(), *settings.rule_paths) for path in top.glob("*/*.toml"))
    words = [__version__, sys.version, mode, str(root), repr(settings), *_own_code(), *map(repr, given.found)]
    return CacheEntry(user_folders.key(words, [*read, *sorted(map(str, rule_files))]), read, since)


def _is_in_tree(root: Path) -> bool:
    """Return whether the cache lies in the project or around it in its repository, where entries may come with it."""
    place = Path(os.path.realpath(user_folders.folder()))
    return any(place.is_relative_to(top) for top in (root, git_tree.marker(root)) if top)


def describing(read: Iterable[str], root: Path) -> list[str]:
    """Return files that may state the torch that the project needs, other than those in `read`."""
    folders = {os.path.dirname(path) for path in read} | {str(up) for up in (root, *root.parents[:2])}
    tops = [str(path) for path in root.glob("requirement*.txt")]
    named = (f"{folder}/{name}" for folder in folders for name in _METADATA_FILES)
    return sorted({*(path for path in named if os.path.isfile(path)), *tops} - {*read})


def sources() -> Iterator[str]:
    """Yield the paths of torchmigrate's own source files, and of the data that they load."""
    for folder, _, names in sorted(os.walk(os.path.dirname(os.path.dirname(__file__)))):
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".toml")))


def _own_code() -> Iterator[str]:
    """Yield size and time stamp of our own source files, so that a modified checkout gets new cache entries."""
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
        "checked": plan.checked,
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
    *(
        str,
        str,
        int,
        int,
        str,
        list,
        (list, type(None)),
        str,
        int,
        int,
        int,
        int,
        (int, type(None)),
        str,
        bool,
        str,
        str,
        bool,
        bool,
    ),
)
_FIX = 6


def _plan_from(data: Any) -> Plan:
    """Return the plan of its JSON data; raises ValueError, TypeError or KeyError if `_data` cannot have made it."""
    notes = _strings(data["notes"])
    results = [_result_from(*row) for row in data["results"]]
    seen, others = _checked(int, data["files_seen"]), frozenset(_strings(data["others"]))
    edits, held = (_checked(int, number) for number in data["checked"])
    return Plan(results, seen, list(notes), others, checked=(edits, held))


def _result_from(kind: str, path: str, value: Any, unread: str) -> FileResult:
    if kind == "unchanged":
        return Unchanged(Path(path), tuple(map(_finding_from, _checked(list, value))), unread=_checked(str, unread))
    if kind == "skipped":
        return Skipped(Path(path), _checked(str, value))
    if kind == "failed":
        return Failed(Path(path), _checked(str, value))
    raise ValueError(kind)


def _finding_from(row: list[Any]) -> Finding:
    for value, kind in zip(row, _TYPES, strict=True):
        _checked(kind, value)
    rule, safety, start, end, message, backends, fix, status, *rest = row
    return Finding(
        *(rule, Safety(safety), start, end, message, _strings(backends), fix and _fix_from(*fix), Status(status), *rest)
    )


def _fix_from(edits: list[Any], safety: str, needs: list[Any]) -> Fix:
    made = [Edit(_checked(int, start), _checked(int, end), _checked(str, text)) for start, end, text in edits]
    return Fix(tuple(made), Safety(safety), frozenset(_strings(needs)))


def _strings(values: Any) -> tuple[str, ...]:
    return tuple(_checked(str, value) for value in _checked(list, values))


def _checked(kind: type | tuple[type, ...], value: Any) -> Any:
    """Return the value, or raise TypeError if it is not of this type."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind}")
    return value
