"""From paths to a plan: discover, gather facts, rewrite each file (in processes if it pays), place the helper."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate import files, own_helper, pack, project
from torchmigrate.config import Settings
from torchmigrate.edits import Changed, Failed, FileResult, Skipped
from torchmigrate.errors import UserError
from torchmigrate.helper import Vendored
from torchmigrate.project import Facts
from torchmigrate.rule import Ruleset
from torchmigrate.table import Table, table
from torchmigrate.worker import Done, Job, Worker

POOL_BYTES = 1_500_000  # below this, starting processes costs more than it saves (measured; performance.md)


HELPER_FLOOR = (2, 1)
NATIVE_FLOOR = (2, 9)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run found and would write. `results` are sorted by path. `others` were read and are not Python;
    `files_seen` is without them."""

    results: list[FileResult]
    files_seen: int
    notes: list[str]
    others: frozenset[str] = frozenset()
    facts: Facts | None = None  # None: no file had work


def plan(paths: Sequence[Path], settings: Settings, jobs: int, mode: str, on_progress: Progress | None = None) -> Plan:
    """Find and, for `apply`, rewrite in memory. Writes nothing. Raises PackError, UserError."""
    ruleset = pack.load(settings.rule_paths, cases=False).selected(settings.select, settings.ignore)
    rules = table(ruleset)
    found = files.discover(paths, settings, rules.texts)
    results, todo, maybe = _read([item for item in found if not item.text], rules, mode)
    about_texts, others = rules.texts.read([item for item in found if item.text], settings)
    seen = sum(not item.text for item in found) + sum(isinstance(r, (Skipped, Failed)) for r in about_texts)
    results += about_texts
    if not todo and not maybe:  # nothing that holds a trigger: no facts, no LibCST, no git
        return Plan(sorted(results, key=lambda r: str(r.path)), seen, [], others)
    facts, notes = _facts(paths, found, todo, settings)
    if settings.style == "native" and mode != "check":
        _refuse_old_torch(facts.torch, notes)
    if maybe:
        todo += [job for job in maybe if job.path in facts.under_default.files]
        if not todo:
            notes = []
    done = list(_run(todo, ruleset, facts, jobs, on_progress))
    vendored = Vendored(facts)
    results += [vendored.bind(r, lacks) if lacks else vendored.keep(r) for r, lacks in done]
    results += vendored.files()
    if settings.style == "native":
        notes += _kept_helper(results, facts)
    return Plan(sorted(results, key=lambda r: str(r.path)), seen, notes, others, facts)


def _read(
    found: Sequence[files.DiscoveredFile], rules: Table, mode: str
) -> tuple[list[FileResult], list[Job], list[Job]]:
    """Results of what is not looked into, jobs, and jobs for files that may turn out to have work."""
    results: list[FileResult] = []
    todo: list[Job] = []
    maybe: list[Job] = []
    for item in found:
        if item.error is not None:
            results.append(Failed(item.path, item.error))
        elif item.skipped_reason is not None:
            results.append(Skipped(item.path, item.skipped_reason))
        else:
            _read_one(str(item.path), rules, mode, results, todo, maybe)
    return results, todo, maybe


def _read_one(path: str, rules: Table, mode: str, results: list[FileResult], todo: list[Job], maybe: list[Job]) -> None:
    try:
        with open(path, "rb", buffering=0) as stream:
            raw = stream.read()
    except OSError as error:
        results.append(Failed(Path(path), f"cannot be read: {error.strerror or error}"))
        return
    if raw.startswith(project.MARKER):
        return
    if rules.has_work(raw):
        todo.append(Job(path, raw, mode))
    elif rules.may_have_work(raw):
        maybe.append(Job(path, raw, mode))


def _facts(
    paths: Sequence[Path], found: Sequence[files.DiscoveredFile], todo: Sequence[Job], settings: Settings
) -> tuple[Facts, list[str]]:
    root = project_root(paths)
    listed = [str(f.path) for f in found if f.skipped_reason is None and f.error is None and not f.text]
    inside = _whole_project(root, paths, listed, settings)
    notes = []
    floor = settings.torch
    if floor is None and (inferred := project.torch_floor(root)):
        floor = inferred[0]
        notes.append(f"torch {floor} inferred from {inferred[1]}")
    own = own_helper.load(settings, inside)
    if own is None and (project.version_of(floor) or HELPER_FLOOR) < HELPER_FLOOR:
        notes.append("the helper needs torch >=2.1, which is more than this project asks for")
    texts = [job.raw for job in todo]
    facts = Facts(
        root=root,
        settings=settings,
        files=tuple(inside),
        cuda_classes=frozenset().union(*map(project.cuda_classes, texts)),
        mentions_cuda=any(b"cuda" in raw for raw in texts),
        helper=project.helper_name(inside, texts),
        torch=floor,
        own=own,
    )
    return facts, notes


def _kept_helper(results: Sequence[FileResult], facts: Facts) -> Iterator[str]:
    """What the native style leaves to the helper."""
    called = re.compile(rf"(?<![\w.]){facts.helper}\.([a-z]\w+)".encode())
    texts = (r.after for r in results if isinstance(r, Changed) and not r.new and not facts.own)
    found = sorted({word.decode() for text in texts for word in called.findall(text)})
    if found:
        yield f"still called of the helper, where torch.accelerator is not the same: {', '.join(found)}"


def _refuse_old_torch(floor: str | None, inferred: Sequence[str]) -> None:
    if (project.version_of(floor) or HELPER_FLOOR) >= NATIVE_FLOOR:
        return
    asks = f"this project asks for torch {floor}" if floor else "nothing says which torch this project asks for"
    where = f" ({inferred[0].rpartition(' ')[2]})" if inferred else ""
    raise UserError(
        f"--style native needs torch >=2.9; {asks}{where}",
        "raise the floor there, or pass --torch '>=2.9'; --style helper runs from torch 2.1 on",
    )


def project_root(paths: Sequence[Path]) -> Path:
    """The folder that was named; for single files, the nearest one that looks like a project."""
    resolved = [p.resolve() for p in paths]
    base = Path(os.path.commonpath(resolved)) if resolved else Path.cwd()
    if not base.is_dir():
        base = base.parent
        marks = (".git", "pyproject.toml", "setup.py", "setup.cfg")
        base = next((up for up in (base, *base.parents) if any((up / mark).exists() for mark in marks)), base)
    while (base / "__init__.py").exists() and base.parent != base:
        base = base.parent
    return base


def _whole_project(root: Path, paths: Sequence[Path], listed: list[str], settings: Settings) -> list[str]:
    """All Python files of the project, also those that this run was not asked to rewrite."""
    if all(p.resolve() == root for p in paths):
        return listed
    found = files.discover([root], replace(settings, root=root))
    return sorted({*(str(f.path) for f in found if f.skipped_reason is None), *listed})


def _run(
    todo: Sequence[Job], ruleset: Ruleset, facts: Facts, jobs: int, on_progress: Progress | None
) -> Iterator[Done]:
    total = sum(len(job.raw) for job in todo)
    largest_first = sorted(todo, key=lambda job: (-len(job.raw), job.path))
    if jobs <= 1 or len(todo) < 2 or total < POOL_BYTES:
        with _uncollected():
            yield from _counted(map(Worker(ruleset, facts), largest_first), len(todo), on_progress)
        return
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
    with ProcessPoolExecutor(jobs, context, _start, (ruleset, facts)) as pool:
        try:
            yield from _counted(pool.map(_work, largest_first, chunksize=4), len(todo), on_progress)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _counted(results: Iterator[Done], total: int, on_progress: Progress | None) -> Iterator[Done]:
    for done, result in enumerate(results, 1):
        if on_progress:
            on_progress(done, total)
        yield result


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cyclic collector: a file's trees live as long as the file does (half the time, measured)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_worker: Worker


def _start(ruleset: Ruleset, facts: Facts) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the main process ends the others
    warnings.simplefilter("ignore")  # `ast.parse` warns of the user's own code
    gc.disable()  # short-lived processes that only allocate
    _worker = Worker(ruleset, facts)


def _work(job: Job) -> Done:
    return _worker(job)
