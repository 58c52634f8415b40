"""Jobs to results, in processes where it pays."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from torchmigrate.base import limits
from torchmigrate.diagnostics.finding import Failed
from torchmigrate.engine.worker import Done, Job, Progress, Read, Worker
from torchmigrate.project.context import ProjectContext
from torchmigrate.rules.model import Ruleset

Shared = tuple[Ruleset, ProjectContext]  # what each process gets
POOL_BYTES = 1_500_000  # below this, starting processes costs more than it saves (measured; performance.md)


def run(
    todo: Sequence[Read], mode: str, ruleset: Ruleset, facts: ProjectContext, jobs: int, on_progress: Progress | None
) -> Iterator[Done]:
    """The largest files first, each result as it comes."""
    total = sum(len(raw) for _, raw in todo)
    largest_first = [Job(path, raw, mode) for path, raw in sorted(todo, key=lambda read: (-len(read[1]), read[0]))]
    if jobs <= 1 or len(todo) < 2 or total < POOL_BYTES:
        with _uncollected():
            yield from _counted(map(Worker(ruleset, facts), largest_first), len(todo), on_progress)
        return
    with limits.pooled():
        yield from _counted(_in_processes(largest_first, jobs, (ruleset, facts)), len(todo), on_progress)


def _in_processes(todo: Sequence[Job], jobs: int, shared: Shared) -> Iterator[Done]:
    """Where a process dies, what is left goes through one process, a file at a time: then it is known of which file."""
    done = 0
    try:
        with _pool(jobs, shared) as pool:
            for result in pool.map(_work, todo, chunksize=4):
                done += 1
                yield result
    except BrokenProcessPool:
        while done < len(todo):
            with _pool(1, shared) as pool:
                for job in todo[done:]:
                    done += 1
                    try:
                        result = pool.submit(_work, job).result()
                    except BrokenProcessPool:
                        yield Failed(Path(job.path), limits.died()), None
                        break
                    yield result


@contextlib.contextmanager
def _pool(jobs: int, shared: Shared) -> Iterator[ProcessPoolExecutor]:
    # not on macOS, whose system libraries start threads, which a fork does not survive
    forks = sys.platform != "darwin" and "fork" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if forks else "spawn")
    with ProcessPoolExecutor(jobs, context, _start, shared) as pool:
        try:
            yield pool
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


def _start(ruleset: Ruleset, facts: ProjectContext) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the main process ends the others
    warnings.simplefilter("ignore")  # `ast.parse` warns of the user's own code
    gc.disable()  # short-lived processes that only allocate
    _worker = Worker(ruleset, facts)


def _work(job: Job) -> Done:
    return _worker(job)
