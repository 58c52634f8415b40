"""From paths to a plan: discover, gather facts, rewrite each file (in processes where there is work), add the helper."""

from __future__ import annotations

import gc
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate import files, pack, project
from torchmigrate.config import Settings
from torchmigrate.edits import Changed, Edit, Failed, FileResult, Finding, Skipped, Unchanged, flatten, shifted
from torchmigrate.helper import Vendored
from torchmigrate.notebook import Notebook, UnreadableNotebook
from torchmigrate.project import Facts
from torchmigrate.scan import Table, table
from torchmigrate.source import Source, UnreadableSource

if TYPE_CHECKING:
    from torchmigrate.rewrite import Outcome

POOL_BYTES = 1_500_000  # below this, starting processes costs more than it saves (measured; performance.md)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run found and would write. `results` are sorted by path."""

    results: list[FileResult]
    files_seen: int
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Unbound:
    """A rewritten text that still lacks an import: the helper's, and torch's where `torch` says so."""

    text: Source
    torch: bool


Done = tuple[FileResult, Unbound | None]


@dataclass(frozen=True, slots=True)
class Job:
    """One file for a worker."""

    path: str
    raw: bytes
    mode: str


def plan(paths: Sequence[Path], settings: Settings, jobs: int, mode: str, on_progress: Progress | None = None) -> Plan:
    """Find and, for `apply`, rewrite in memory. Writes nothing. Raises PackError, UserError."""
    ruleset = pack.load(settings.rule_paths).selected(settings.select, settings.ignore)
    found = files.discover(paths, settings)
    rules = table(ruleset)
    results, todo = _read(found, rules, mode)
    if not todo:  # nothing that holds a trigger: no facts, no LibCST, no git
        return Plan(sorted(results, key=lambda r: str(r.path)), len(found), [])
    facts, notes = _facts(paths, found, todo, settings)
    done = list(_run(todo, ruleset, facts, jobs, on_progress))
    vendored = Vendored(facts)
    results += [vendored.bind(r, u.text, u.torch) if u else vendored.keep(r) for r, u in done]
    results += vendored.files()
    return Plan(sorted(results, key=lambda r: str(r.path)), len(found), notes)


def _read(found: Sequence[files.DiscoveredFile], rules: Table, mode: str) -> tuple[list[FileResult], list[Job]]:
    results: list[FileResult] = []
    todo: list[Job] = []
    for item in found:
        if item.error is not None:
            results.append(Failed(item.path, item.error))
        elif item.skipped_reason is not None:
            results.append(Skipped(item.path, item.skipped_reason))
        else:
            _read_one(str(item.path), rules, mode, results, todo)
    return results, todo


def _read_one(path: str, rules: Table, mode: str, results: list[FileResult], todo: list[Job]) -> None:
    try:
        with open(path, "rb", buffering=0) as stream:
            raw = stream.read()
    except OSError as error:
        results.append(Failed(Path(path), f"cannot be read: {error.strerror or error}"))
        return
    if raw.startswith(project.MARKER) or not rules.has_work(raw):
        return
    todo.append(Job(path, raw, mode))


def _facts(
    paths: Sequence[Path], found: Sequence[files.DiscoveredFile], todo: Sequence[Job], settings: Settings
) -> tuple[Facts, list[str]]:
    root = project_root(paths)
    listed = [str(f.path) for f in found if f.skipped_reason is None and f.error is None]
    inside = _whole_project(root, paths, listed, settings)
    notes = []
    floor = settings.torch
    if floor is None and (inferred := project.torch_floor(root)):
        floor = inferred[0]
        notes.append(f"torch {floor} inferred from {inferred[1]}")
    texts = [job.raw for job in todo]
    facts = Facts(
        root=root,
        settings=settings,
        files=tuple(inside),
        cuda_classes=frozenset().union(*map(project.cuda_classes, texts)),
        mentions_cuda=any(b"cuda" in raw for raw in texts),
        helper=project.helper_name(inside, texts),
        torch=floor,
    )
    return facts, notes


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
    todo: Sequence[Job], ruleset: pack.Ruleset, facts: Facts, jobs: int, on_progress: Progress | None
) -> Iterator[Done]:
    total = sum(len(job.raw) for job in todo)
    largest_first = sorted(todo, key=lambda job: (-len(job.raw), job.path))
    if jobs <= 1 or len(todo) < 2 or total < POOL_BYTES:
        source = map(Worker(ruleset, facts), largest_first)
        yield from _counted(source, len(todo), on_progress)
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


_worker: Worker


def _start(ruleset: pack.Ruleset, facts: Facts) -> None:
    global _worker
    warnings.simplefilter("ignore")  # `ast.parse` warns of the user's own code
    gc.disable()  # short-lived processes that only allocate
    _worker = Worker(ruleset, facts)


def _work(job: Job) -> Done:
    return _worker(job)


class Worker:
    """Turns one job into one result; the second value is the rewritten text if it still needs the helper's import."""

    def __init__(self, ruleset: pack.Ruleset, facts: Facts) -> None:
        self.ruleset, self.facts = ruleset, facts
        self._tables: dict[tuple[str, ...], Table] = {}

    def rules(self, path: Path) -> Table:
        """The dispatch table, without what `per-file-ignores` switches off in this file."""
        ignored = self.facts.settings.ignored_in(path)
        if ignored not in self._tables:
            self._tables[ignored] = table(self.ruleset.selected((), ignored))
        return self._tables[ignored]

    def __call__(self, job: Job) -> Done:
        from torchmigrate.rewrite import RewriteError

        path = Path(job.path)
        try:
            return self._one(path, job)
        except (UnreadableSource, UnreadableNotebook, RewriteError) as error:
            return Failed(path, str(error)), None
        except SyntaxError as error:
            return Failed(path, f"line {error.lineno}: not Python 3 ({error.msg})"), None
        except (RecursionError, MemoryError) as error:
            return Failed(path, f"too deeply nested to parse ({type(error).__name__})"), None
        except Exception as error:  # one file's bug must not cost the others; it is reported as ours
            import traceback

            where = traceback.extract_tb(error.__traceback__)[-1]
            name = os.path.basename(where.filename)
            return Failed(path, f"internal error: {type(error).__name__}: {error} ({name}:{where.lineno}); please report it"), None

    def _one(self, path: Path, job: Job) -> Done:
        from torchmigrate import notebook, source, suppress
        from torchmigrate.module import Module
        from torchmigrate.rewrite import inspect, rewrite

        book = notebook.split(job.raw) if path.suffix == ".ipynb" else None
        text = book.source if book else source.decode(job.raw)
        if b"torchmigrate: skip-file" in text.utf8 and suppress.find(text).skip_file:
            return Skipped(path, "# torchmigrate: skip-file"), None
        if job.mode == "check":
            findings = inspect(Module(path, text, self.facts), self.rules(path), self.facts)
            return Unchanged(path, tuple(_in_cells(findings, book))), None
        outcome = rewrite(path, text, self.rules(path), self.facts)
        if not outcome.applied:
            return Unchanged(path, tuple(_in_cells(outcome.remaining, book))), None
        if book:
            return self._notebook(path, job.raw, book, outcome), None
        rewritten = replace(text, utf8=outcome.text)
        after = text.encode(outcome.text)
        unbound = Unbound(rewritten, outcome.needs_torch) if outcome.needs_helper or outcome.needs_torch else None
        return Changed(path, job.raw, after, outcome.applied, outcome.remaining), unbound

    def _notebook(self, path: Path, raw: bytes, book: Notebook, outcome: Outcome) -> Changed:
        """The helper lies beside the notebook; its import goes into the cell that imports torch."""
        from torchmigrate import bindings, notebook
        from torchmigrate.module import Module

        edits = flatten(outcome.passes, len(book.source.utf8))
        findings = outcome.remaining
        module = Module(path, book.source, self.facts)
        if outcome.needs_helper and not bindings.imports_helper(module):
            first = min((e.start for e in edits), default=len(book.source.utf8))
            added = bindings.insertion(module, [f"import {self.facts.helper}"], first, before=True)
            ahead = [e for e in edits if e.start < added.start]
            grown = sum(len(e.text.encode()) - (e.end - e.start) for e in ahead)
            findings = tuple(shifted(findings, Edit(added.start + grown, added.start + grown, added.text)))
            edits = sorted([*edits, added])
        after = book.join(edits)
        applied = tuple(_in_cells(outcome.applied, book))
        return Changed(path, raw, after, applied, tuple(_in_cells(findings, notebook.split(after))))


def _in_cells(findings: Sequence[Finding], book: Notebook | None) -> Iterator[Finding]:
    if book is None:
        yield from findings
        return
    for finding in findings:
        cell, line = book.cell_of(finding.start)
        last = book.cell_of(finding.end)[1]
        yield replace(finding, cell=cell, line=line, end_line=last)


