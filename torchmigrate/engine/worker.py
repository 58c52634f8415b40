"""Analyse or rewrite single files in one or many processes; whatever happens to a file, it gets a result."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from torchmigrate.base import limits, system
from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Skipped, Unchanged
from torchmigrate.helper.vendoring import Unbound
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.text_rules import with_shell_findings
from torchmigrate.rewriting import notebook_results
from torchmigrate.rewriting.rewrite import Outcome, RewriteError, inspect, reported, rewrite
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules.model import Ruleset
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source import encoding, notebook
from torchmigrate.source.edits import flatten
from torchmigrate.source.encoding import Source, UnreadableSource
from torchmigrate.source.notebook import UnreadableNotebook
from torchmigrate.worlds.check import Rewritten

SKIPS = "# torchmigrate: skip-file"


class Done(NamedTuple):
    """The result of a file, the imports that its text still lacks, and the rewrite for the worlds check."""

    result: FileResult
    lacks: Unbound | None = None
    rewritten: Rewritten | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job is one file for a worker."""

    path: str
    raw: bytes
    mode: str  # check | apply | survey (the findings of apply, all with positions in the original file)


class Worker:
    """Turns one job into a result, and the rewritten text if it still needs imports."""

    def __init__(self, ruleset: Ruleset, facts: ProjectContext) -> None:
        self.ruleset, self.facts = ruleset, facts
        self._tables: dict[tuple[str, ...], DispatchTable] = {}

    def rules(self, path: Path) -> DispatchTable:
        """Return the dispatch table without the rules that `per-file-ignores` switches off in this file."""
        ignored = self.facts.settings.ignored_in(path)
        if ignored not in self._tables:
            self._tables[ignored] = dispatch_table(self.ruleset.selected((), ignored))
        return self._tables[ignored]

    def __call__(self, job: Job) -> Done:
        """Process one file; an exception becomes a Failed result, so that one file's bug does not stop the run."""
        path = Path(job.path)
        if len(job.raw) > (most := limits.largest(job.path)):  # an overlay: a file is not even read
            return Done(Skipped(path, f"larger than {most:,} bytes"))
        try:
            with limits.bounded():
                return self._process(path, job)
        except limits.TooSlow:
            return Done(Failed(path, limits.too_slow_message()))
        except (UnreadableSource, UnreadableNotebook, RewriteError) as error:
            return Done(Failed(path, str(error)))
        except SyntaxError as error:
            return Done(Failed(path, f"line {error.lineno}: {encoding.syntax_message(error)}"))
        except RecursionError:
            return Done(Failed(path, "too deeply nested to parse (RecursionError)"))
        except MemoryError:  # `ast` raises it for deeply nested code as well
            return Done(Failed(path, "too deeply nested to parse, or too large for the memory there is (MemoryError)"))
        except Exception as error:
            if "set_int_max_str_digits" in str(error):  # of a literal such as 0xfff..., which Python reads
                return Done(Failed(path, "has a number of thousands of digits, which Python does not print"))
            # one file's bug must not stop the others; it is reported as a bug of torchmigrate
            import traceback

            where = traceback.extract_tb(error.__traceback__)[-1]
            name = os.path.basename(where.filename)
            what = f"internal error: {type(error).__name__}: {error} ({name}:{where.lineno})"
            return Done(Failed(path, f"{what}; please report it"))

    def _process(self, path: Path, job: Job) -> Done:
        """Return the result of a Python file or notebook; errors are left to the caller."""
        if path.suffix == ".ipynb":
            return self._notebook(path, job)
        text = encoding.decode(job.raw)
        if b"torchmigrate: skip-file" in text.utf8 and suppressions.find(text).skip_file:
            return Done(Skipped(path, SKIPS))
        if job.mode == "check":
            found = inspect(SemanticModel(path, text, self.facts), self.rules(path), self.facts)
            return Done(Unchanged(path, tuple(reported(found, text.utf8))))
        outcome = rewrite(path, text, self.rules(path), self.facts, tidy=True)
        unbound = Unbound(replace(text, utf8=outcome.text), outcome.needs_helper, outcome.needs_torch, text.utf8)
        lacks = unbound if unbound.helper or unbound.torch else None
        if job.mode == "survey":
            return Done(Unchanged(path, tuple(outcome.in_original(text))), lacks, _rewritten(path, text, outcome))
        if not outcome.applied:
            return Done(Unchanged(path, tuple(outcome.remaining)))
        changed = Changed(path, job.raw, text.encode(outcome.text), outcome.applied, outcome.remaining)
        return Done(changed, lacks, _rewritten(path, text, outcome))

    def _notebook(self, path: Path, job: Job) -> Done:
        book, rules = notebook.split(job.raw), self.rules(path)
        text = book.source
        if book.language:
            return Done(Skipped(path, f"a notebook in {book.language}"))
        if suppressions.find(text).skip_file or notebook_results.skips_file(book):
            return Done(Skipped(path, SKIPS))
        unread = notebook_results.unread(book, rules.has_work)
        if unread and not book.cells:
            return Done(Failed(path, unread))
        result: Changed | Unchanged
        rewritten = None
        if job.mode == "check":
            found = inspect(SemanticModel(path, text, self.facts), rules, self.facts)
            result = Unchanged(path, tuple(notebook_results.in_cells(reported(found, text.utf8), book)))
        else:
            outcome = rewrite(path, text, rules, self.facts)
            rewritten = _rewritten(path, text, outcome)
            if job.mode == "survey":
                result = Unchanged(path, tuple(notebook_results.in_cells(list(outcome.in_original(text)), book)))
            elif not outcome.applied:
                result = Unchanged(path, tuple(notebook_results.in_cells(outcome.remaining, book)))
            else:
                result = notebook_results.changed(path, job.raw, book, outcome, self.facts)
        after = notebook.split(result.after) if isinstance(result, Changed) else book
        with_shell = with_shell_findings(result.findings, after, rules.texts, path)
        findings = sorted(
            (*with_shell, *notebook_results.foreign(after, rules.has_work)), key=lambda f: (f.cell or 0, f.line)
        )
        return Done(replace(result, findings=tuple(findings), unread=unread), None, rewritten)


def _rewritten(path: Path, before: Source, outcome: Outcome) -> Rewritten | None:
    """Return what the worlds check needs of a rewrite, or None if nothing was rewritten."""
    if not outcome.applied:
        return None
    return Rewritten(str(path), before.utf8, outcome.text, tuple(flatten(outcome.passes, len(before.utf8))))


Progress = Callable[[int, int], None]
Read = tuple[str, bytes]  # a file's path and bytes


Shared = tuple[Ruleset, ProjectContext]  # sent to each process
POOL_BYTES = 1_500_000  # below this, starting processes costs more than it saves (measured)


def run(
    todo: Sequence[Read], mode: str, ruleset: Ruleset, facts: ProjectContext, jobs: int, on_progress: Progress | None
) -> Iterator[Done]:
    """Process the largest files first, and yield each result as it is ready."""
    total = sum(len(raw) for _, raw in todo)
    largest_first = [Job(path, raw, mode) for path, raw in sorted(todo, key=lambda read: (-len(read[1]), read[0]))]
    if jobs <= 1 or len(todo) < 2 or total < POOL_BYTES:
        yield from _with_progress(map(Worker(ruleset, facts), largest_first), len(todo), on_progress)
        return
    with limits.safe_import_path():
        yield from _with_progress(_in_processes(largest_first, jobs, (ruleset, facts)), len(todo), on_progress)


def _in_processes(todo: Sequence[Job], jobs: int, shared: Shared) -> Iterator[Done]:
    """Yield the results of a process pool; after a crash, run the rest one by one, to name the culprit."""
    done = 0
    try:
        with _pool(jobs, shared) as pool:
            for result in pool.map(_process_job, todo, chunksize=4):
                done += 1
                yield result
    except BrokenProcessPool:
        while done < len(todo):
            with _pool(1, shared) as pool:
                for job in todo[done:]:
                    done += 1
                    try:
                        result = pool.submit(_process_job, job).result()
                    except BrokenProcessPool:
                        yield Done(Failed(Path(job.path), limits.worker_died_message()))
                        break
                    yield result


@contextlib.contextmanager
def _pool(jobs: int, shared: Shared) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("fork" if system.can_fork() else "spawn")
    with ProcessPoolExecutor(jobs, context, _start_process, shared) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _with_progress(results: Iterator[Done], total: int, on_progress: Progress | None) -> Iterator[Done]:
    for done, result in enumerate(results, 1):
        if on_progress:
            on_progress(done, total)
        yield result


_worker: Worker


def _start_process(ruleset: Ruleset, facts: ProjectContext) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main one ends the others
    warnings.simplefilter("ignore")  # parsing warns of the user's own code
    gc.disable()  # these processes are short-lived and mostly allocate
    _worker = Worker(ruleset, facts)


def _process_job(job: Job) -> Done:
    return _worker(job)
