"""Verify a project from start to end: copies, migration, build, runs, verdicts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from torchmigrate.base.text import counted, shorten
from torchmigrate.config import config_file
from torchmigrate.config.settings import Settings
from torchmigrate.verify import backends, verdict
from torchmigrate.verify.backends import Machine, Way
from torchmigrate.verify.interpreter import Command, resolve
from torchmigrate.verify.migration import Migration, Origins, migrate
from torchmigrate.verify.run import Outcome, Run, Task, execute
from torchmigrate.verify.sandbox import Project, Sandbox
from torchmigrate.verify.verdict import Baseline, Kind, Limits, Verdict

Say = Callable[[str], None]
_LONG = 80  # characters of an error in a line of progress


@dataclass(frozen=True, slots=True)
class Request:
    """The options of the command line: seconds per run, devices, jobs at a time; `settings` None: the project's."""

    path: Path
    words: tuple[str, ...]
    backends: tuple[str, ...] = backends.DEFAULT
    limits: Limits = field(default_factory=Limits)
    timeout: float = 600.0
    count: int | None = None
    globs: tuple[str, ...] = ()
    tier: str = "native"
    jobs: int = 2
    variables: dict[str, str] = field(default_factory=dict)
    unsafe_fixes: bool | None = None
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a verification; `verdicts`: the reference first, then the backends in the order asked for."""

    project: Project
    machine: Machine
    migration: Migration
    baseline: Baseline
    limits: Limits
    verdicts: tuple[Verdict, ...]


def verify(request: Request, say: Say) -> Result:
    """Verify a project in copies, and tell `say` of progress; raises UserError if nothing can be run."""
    project = Project.at(request.path)
    settings = request.settings or config_file.load([request.path], unsafe_fixes=request.unsafe_fixes)
    command = resolve(request.words, project.directory)
    if command.note:
        say(f"note: {command.note}")
    say(f"this runs the project's code: {' '.join(request.words)}, in copies that are deleted afterwards")
    with terminable(), Sandbox(project) as sandbox:
        _report_links(sandbox, say)
        migration = migrate(sandbox, settings)
        _report_migration(migration, say)
        machine = _build_if_needed(backends.machine(command.interpreter, request.tier), request.backends, say)
        runs = _Runs(request, command, sandbox, migration.origins, machine.library, say)
        outcomes = runs.all(_plan_runs(machine, request.backends))
    base = _make_baseline(outcomes)
    return Result(project, machine, migration, base, request.limits, tuple(_judge(outcomes, base, request.limits)))


Outcomes = list[tuple[Run, Outcome | None]]


def _plan_runs(machine: Machine, names: Sequence[str]) -> list[Run]:
    """Plan two runs of the original, which give the reference, then the runs of the rewritten project."""
    cuda = backends.way(machine, "cuda")
    rewritten = [Run("rewritten", backends.way(machine, name)) for name in dict.fromkeys(names)]
    return [Run("original", cuda), Run("original", cuda, repeat=True), *rewritten]


def _make_baseline(outcomes: Outcomes) -> Baseline:
    originals = [(run, outcome) for run, outcome in outcomes if run.project == "original"]
    (run, first), (_, second) = originals
    if first is None or second is None:
        return Baseline(why=run.way.skip)
    return verdict.baseline(first, second)


def _judge(outcomes: Outcomes, base: Baseline, limits: Limits) -> Iterator[Verdict]:
    for run, outcome in outcomes:
        if run.repeat:
            continue
        if outcome is None:
            yield Verdict(run, Kind.SKIPPED, run.way.skip or "")
        elif run.project == "original":
            yield verdict.of_reference(base, limits)
        else:
            yield verdict.of_rewritten(outcome, base, limits)


def _build_if_needed(machine: Machine, names: Sequence[str], say: Say) -> Machine:
    ways: list[Way] = [backends.way(machine, name) for name in ("cuda", *names)]
    if not any(w.evidence == "simulated" and w.tier == "native" and not w.skip for w in ways):
        return machine
    patience = threading.Timer(1.0, say, ["building the simulated device (once per torch and compiler)..."])
    patience.start()  # says nothing if the cache has the library
    try:
        return backends.build(machine)
    finally:
        patience.cancel()


@dataclass(slots=True)
class _Runs:
    request: Request
    command: Command
    sandbox: Sandbox
    origins: Origins
    library: str
    say: Say
    stop: threading.Event = field(default_factory=threading.Event)

    def all(self, runs: Sequence[Run]) -> Outcomes:
        """Execute the runs, `jobs` at a time, each in a fresh copy; Ctrl-C ends all of them."""
        todo = [run for run in runs if not run.way.skip]
        with ThreadPoolExecutor(self.request.jobs) as pool:
            try:  # from the first submit on: on an exception, the pool would wait for the runs
                futures = {pool.submit(self._execute, run): run for run in todo}
                self._report_progress(futures)
            except BaseException:
                self.stop.set()
                pool.shutdown(cancel_futures=True)
                raise
        done = {run: future.result() for future, run in futures.items()}
        return [(run, done.get(run)) for run in runs]

    def _execute(self, run: Run) -> Outcome:
        tree = self.sandbox.original if run.project == "original" else self.sandbox.rewritten
        origins = Origins(tree) if run.project == "original" else self.origins
        with self.sandbox.fresh(tree) as place:
            return execute(run, self._task(), place, origins, self.stop)

    def _task(self) -> Task:
        request, command = self.request, self.command
        return Task(
            command.words,
            command.interpreter.executable if command.note else "",
            self.sandbox.project,
            request.timeout,
            request.count,
            request.globs,
            request.variables,
            command.interpreter.paths,
            self.library,
        )

    def _report_progress(self, futures: dict[Future[Outcome], Run]) -> None:
        for number, future in enumerate(as_completed(futures), 1):
            run, outcome = futures[future], future.result()
            ended = shorten(outcome.error or "exit status 0", _LONG)
            again = ", once more" if run.repeat else ""
            how = run.way.evidence if run.way.backend != "cpu" else ""
            what = f"{run.name}{f' ({how})' if how else ''}{again}: {ended}; {outcome.seconds:.1f} s"
            self.say(f"  {number}/{len(futures)} {what}")


def _report_links(sandbox: Sandbox, say: Say) -> None:
    if sandbox.linked:
        shown = ", ".join(sandbox.linked[:5]) + (
            f" and {len(sandbox.linked) - 5} more" if len(sandbox.linked) > 5 else ""
        )
        say(f"note: large data is linked into the copies, not copied: {shown}")


def _report_migration(migration: Migration, say: Say) -> None:
    for error in migration.errors:
        say(f"warning: not rewritten: {error}")
    for note in migration.notes:
        say(f"note: {note}")
    if not migration.files:
        say("note: nothing to rewrite: both projects are the same")
    else:
        say(f"rewrote {counted(migration.files, 'file')} in a copy: {counted(migration.edits, 'edit')}")
    if migration.held:
        say(f"note: {counted(migration.held, 'unsafe fix', 'unsafe fixes')} not applied (--unsafe-fixes)")


@contextmanager
def terminable() -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into KeyboardInterrupt, and ignore others during cleanup."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    there = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    caught = [each for each in there if signal.getsignal(each) != signal.SIG_IGN]  # nohup ignores SIGHUP; keep it so
    before = {each: signal.signal(each, interrupt) for each in caught}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
