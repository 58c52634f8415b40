"""Verify a project from start to end: copies, migration, build, runs, verdicts."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Literal

from torchmigrate.base.globs import Globs
from torchmigrate.base.text import UserError, counted, listed, shorten
from torchmigrate.config import config_file
from torchmigrate.config.settings import Settings
from torchmigrate.verify import backends, verdict
from torchmigrate.verify.backends import Machine, Way
from torchmigrate.verify.compare import Arrays
from torchmigrate.verify.evidence import evidence, may_be_constant, size, without_constants
from torchmigrate.verify.interpreter import Command, compare_arrays, resolve
from torchmigrate.verify.migration import Migration, Origins, migrate, restore
from torchmigrate.verify.run import Outcome, Run, Task, execute
from torchmigrate.verify.sandbox import LARGE, Project, Sandbox
from torchmigrate.verify.verdict import Baseline, Kind, Limits, Verdict

Say = Callable[[str], None]
_MUCH = 16 << 20  # bytes
_LONG = 80  # characters of an error in a line of progress
_PURPOSES = {
    "": "",
    "repeat": ", once more",
    "numbers": ", with altered numbers",
    "fractions": ", with altered fractions",
    "inputs": ", given altered numbers",
    "shared": ", with the CPU's random numbers",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request has the options of the command line: seconds per run, devices, jobs; `settings` None: the project's.

    `originals`: what files of a migrated project held before; `applied` finds that of a project that has nothing left
    to rewrite, and how many of its files were edited since.
    """

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
    profile: str = ""
    platform: str = ""
    originals: Mapping[Path, bytes] = field(default_factory=dict)
    applied: Callable[[Path], tuple[Mapping[Path, bytes], int]] = lambda path: ({}, 0)


@dataclass(frozen=True, slots=True)
class Result:
    """A verification has this result; `verdicts`: the reference first, then the backends in the order asked for."""

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
    _report_driver(request.words, project, say)
    with terminable(), Sandbox(project, Globs(request.globs)) as sandbox:
        _report_links(sandbox, say)
        migration = _prepare(request, sandbox, settings)
        _report_migration(migration, say)
        machine = _build_if_needed(backends.machine(command.interpreter, request.tier), request.backends, say)
        runs = _Runs(request, command, sandbox, migration.origins, machine.library, say)
        judged = _Judged(request, machine, runs)
        judged.run()
        _report_damage(sandbox, say)
        verdicts = tuple(judged.verdicts())
    return Result(project, machine, migration, judged.base, request.limits, verdicts)


def _prepare(request: Request, sandbox: Sandbox, settings: Settings) -> Migration:
    """Migrate the copy; of a project that is migrated already, restore the original.

    Raises UserError if both are equal.
    """
    if request.originals:
        return restore(sandbox, request.originals, settings)
    migration = migrate(sandbox, settings)
    if migration.files:
        return migration
    originals, edited = request.applied(request.path)
    if originals:
        restored = restore(sandbox, originals, settings)
        return replace(restored, notes=(_edited_since(edited),)) if edited else restored
    for error in migration.errors:
        raise UserError(f"not rewritten: {error}", "exclude the file, or mend it")
    raise UserError(
        "there is nothing to rewrite: both projects would be the same",
        "if it is migrated already, name a commit before that: --since main",
    )


def _edited_since(files: int) -> str:
    also = counted(files, "file was edited after `apply` and is", "files were edited after `apply` and are")
    return f"{also} in the original as now: --since REV takes the original from a commit"


@dataclass
class _Judged:
    """Judge the runs of a verification, each of which starts when it is known to be needed."""

    request: Request
    machine: Machine
    runs: _Runs
    done: dict[Run, Outcome] = field(default_factory=dict)
    arrays: Mapping[str, Arrays] = field(default_factory=dict)

    def run(self) -> None:
        """Run the reference, then the rewritten project, then what the verdicts of these ask for."""
        self._execute([self._reference()])  # first and alone: it shows which ports the program wants for itself
        self._find_files()
        self._execute([*self._supporting(), *self._rewritten()])
        self._execute(self._without_numbers())
        self._compare_arrays()
        self._execute([*self._with_inputs(), *self._altered()])
        self._execute(self._beside())
        self._execute(self._once_more())
        self._compare_arrays()

    def _find_files(self) -> None:
        """Raise UserError if the original comes to its end and writes no file that an option names."""
        first = self.base.first
        if first is None or first.exit != 0:
            return
        for option, patterns, found in (
            ("--compare", self.request.globs, {*first.files}),
            ("--only-on-cuda", self.request.limits.only_on_cuda, {*first.made, *first.files}),
        ):
            for pattern in patterns:
                if not any(map(Globs([pattern]).match, found)):
                    raise UserError(
                        f"{option} {pattern}: the original writes no such file",
                        "patterns are relative to the project's top",
                    )

    def _compare_arrays(self) -> None:
        """Compare the binary files of all runs with those of the reference, in the interpreter that has torch."""
        base = self.base
        if not base.stands or base.first is None or base.second is None:
            return
        tasks = []
        for run, outcome in self.done.items():
            exact = run.way == base.first.run.way
            for name, found in outcome.files.items():
                first, second = base.first.files.get(name), base.second.files.get(name)
                if found.kept and found.kept not in self.arrays and first and second and first.kept and second.kept:
                    tasks.append((first.kept, second.kept, found.kept, 0.0 if exact else self.request.limits.tolerance))
        if tasks:
            self.arrays = {**self.arrays, **compare_arrays(self.machine.interpreter.executable, tasks)}

    def _execute(self, runs: Sequence[Run]) -> None:
        todo = [run for run in runs if not run.way.skip and run not in self.done]
        self.done |= self.runs.all(todo)

    def _reference(self) -> Run:
        return Run("original", backends.way(self.machine, "cuda"))

    def _rewritten(self) -> list[Run]:
        return [Run("rewritten", backends.way(self.machine, name)) for name in dict.fromkeys(self.request.backends)]

    def _supporting(self) -> list[Run]:
        """Return further runs of the original on cuda, if it runs there: again, and with altered values."""
        run = self._reference()
        first = self.done.get(run)
        if first is None or verdict.why_no_reference(first):
            return []
        altered = run.way.evidence == "simulated" and not first.tests and not verdict.ends_unused(first)
        return [replace(run, purpose="repeat"), *([replace(run, purpose="numbers")] if altered else [])]

    def _without_numbers(self) -> list[Run]:
        """Return a run in which whole numbers stay what they are, if the program made no sense of altered ones."""
        altered = self.done.get(replace(self._reference(), purpose="numbers"))
        lost = altered is not None and altered.exit != 0 and not self.base.evidence
        return [replace(self._reference(), purpose="fractions")] if lost else []

    def _with_inputs(self) -> list[Run]:
        """Return a run of the original whose device is given other numbers, if its results may be constants."""
        base = self.base
        constant = base.stands and base.second is not None and may_be_constant(base.evidence, base.reference)
        return [replace(self._reference(), purpose="inputs")] if constant else []

    def _altered(self) -> list[Run]:
        """Return runs of the rewritten project that read altered values, to see what of its numbers its device gives.

        Where it passes: on the first backend but cuda, and wherever it reads less than the original or was refused
        something.
        """
        base, way = self.base, self._reference().way
        if not (base.stands and base.evidence):
            return []
        alike = [
            run
            for run in self._rewritten()
            if run in self.done and (run.way.evidence, run.way.tier) == (way.evidence, way.tier)
        ]
        limits = self.request.limits
        passes = [run for run in alike if verdict.agrees(verdict.of_rewritten(self.done[run], base, limits), base)]
        first = [run for run in passes if run.way != way][:1]
        less = [run for run in passes if verdict.reads_less(self.done[run], base)]
        return [replace(run, purpose=self._purpose) for run in dict.fromkeys([*first, *less])]

    @property
    def _purpose(self) -> Literal["fractions", "numbers"]:
        return "fractions" if replace(self._reference(), purpose="fractions") in self.done else "numbers"

    def _beside(self) -> list[Run]:
        """Return runs of the original where a rewritten project does not plainly pass."""
        base, found = self.base, []
        if base.first and base.stands and verdict.ends_unused(base.first):
            return []
        for run in self._rewritten():
            outcome = self.done.get(run)
            if outcome and verdict.asks_for_original(verdict.of_rewritten(outcome, base, self.request.limits)):
                found.append(Run("original", run.way))
                if run.way.evidence == "cpu" and base.stands and self._reference().way.evidence == "simulated":
                    found.append(replace(self._reference(), purpose="shared"))
        return found

    def _once_more(self) -> list[Run]:
        """Return second runs of the original where its first says that the rewritten project prints other numbers."""
        base, limits = self.base, self.request.limits
        found = [verdict.of_rewritten(self.done[run], base, limits) for run in self._rewritten() if run in self.done]
        return [Run("original", each.run.way, "repeat") for each in found if verdict.asks_for_repeat(each)]

    @property
    def base(self) -> Baseline:
        """Return what is known of the original so far."""
        cuda = self._reference()
        first, second = self.done.get(cuda), self.done.get(replace(cuda, purpose="repeat"))
        if first is None:
            return Baseline(why=cuda.way.skip, elsewhere=self._elsewhere(), again=self._elsewhere("repeat"))
        made = verdict.baseline(first, second)
        altered = [self.done.get(replace(cuda, purpose=purpose)) for purpose in ("fractions", "numbers")]
        runs = [each for each in altered if each and made.stands]
        known = [evidence(made.reference, first, each, self.arrays, second) for each in runs]
        found = next(filter(None, known), known[-1] if known else None)
        given = self.done.get(replace(cuda, purpose="inputs"))
        return replace(
            made,
            evidence=without_constants(found, made.reference, first, given) if found and given else found,
            elsewhere=self._elsewhere(),
            again=self._elsewhere("repeat"),
            shared=self.done.get(replace(cuda, purpose="shared")),
            altered={
                run.way.backend: self.done[run] for run in self.done if run.project == "rewritten" and run.purpose
            },
            arrays=self.arrays,
        )

    def _elsewhere(self, purpose: str = "") -> dict[str, Outcome]:
        originals = [run for run in self.done if run.project == "original" and run.purpose == purpose]
        return {run.way.backend: self.done[run] for run in originals if run.way != self._reference().way}

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the verdicts, the reference's first."""
        base, limits = self.base, self.request.limits
        reference = self._reference()
        yield (
            Verdict(reference, Kind.SKIPPED, f"no reference: {reference.way.skip}")
            if base.first is None
            else verdict.of_reference(base, limits)
        )
        for run in self._rewritten():
            outcome = self.done.get(run)
            if outcome is None:
                yield Verdict(run, Kind.SKIPPED, run.way.skip or "")
            else:
                yield self._with_guards(verdict.of_rewritten(outcome, base, limits))

    def _with_guards(self, found: Verdict) -> Verdict:
        """Name the conditions that likely kept the work on the CPU."""
        if not found.on_cpu or found.outcome is None:
            return found
        from torchmigrate.verify.diagnosis.diagnose import conditions_left

        left = conditions_left(self.runs.origins, found.outcome.own_files)
        return replace(found, reason=f"{found.reason}; likely sent there by {listed(left)}") if left else found


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
    alone: bool = False
    planned: int = 0
    finished: int = 0
    usual: float = float("inf")  # seconds that the reference took

    def all(self, runs: Sequence[Run]) -> dict[Run, Outcome]:
        """Execute the runs, `jobs` at a time, each in a fresh copy; Ctrl-C ends all of them.

        A run that found a port taken is repeated alone; and once a program is known to choose its port itself, all are.
        """
        self.planned += len(runs)
        done = self._pool(runs, 1 if self.alone else self.request.jobs)
        collided = [run for run, outcome in done.items() if outcome.collided]
        if collided and len(runs) > 1:
            self.say("note: a port was taken: these runs are repeated, one at a time")
            self.alone = True
            self.planned += len(collided)
            done |= self._pool(collided, 1)
        if any(outcome.ports - outcome.given_ports for outcome in done.values()) and not self.alone:
            self.alone = True
            self.say("note: the program chooses a port itself: one run at a time")
        return done

    def _pool(self, runs: Sequence[Run], jobs: int) -> dict[Run, Outcome]:
        if not runs:
            return {}
        with ThreadPoolExecutor(jobs) as pool:
            try:  # from the first submit on: on an exception, the pool would wait for the runs
                futures = {pool.submit(self._execute, run): run for run in runs}
                self._report_progress(futures)
            except BaseException:
                self.stop.set()
                pool.shutdown(cancel_futures=True)
                raise
        return {run: future.result() for future, run in futures.items()}

    def _execute(self, run: Run) -> Outcome:
        tree = self.sandbox.original if run.project == "original" else self.sandbox.rewritten
        origins = Origins(tree) if run.project == "original" else self.origins
        with self.sandbox.fresh(tree) as place:
            outcome = execute(run, self._task(run), place, origins, self.stop)
        self.usual = min(self.usual, outcome.seconds)
        return outcome

    def _task(self, run: Run) -> Task:
        request, command = self.request, self.command
        # a loop that waits for a value may wait for ever if the value is altered
        timeout = min(request.timeout, 30 + 5 * self.usual) if "ALTER" in "".join(run.variables) else request.timeout
        return Task(
            command.words,
            command.interpreter.executable if command.note else "",
            self.sandbox.project,
            timeout,
            request.count,
            request.globs,
            request.variables,
            command.interpreter.paths,
            self.library,
            request.profile,
            request.platform,
        )

    def _report_progress(self, futures: dict[Future[Outcome], Run]) -> None:
        for future in as_completed(futures):
            self.finished += 1
            run, outcome = futures[future], future.result()
            ended = shorten(outcome.error or "exit status 0", _LONG)
            again = _PURPOSES[run.purpose]
            how = run.way.evidence if run.way.backend != "cpu" else ""
            what = f"{run.name}{f' ({how})' if how else ''}{again}: {ended}; {outcome.seconds:.1f} s"
            self.say(f"  {self.finished}/{self.planned} {what}")


def _report_driver(words: Sequence[str], project: Project, say: Say) -> None:
    """Say which code of the command is no part of the project and runs as it is, and which paths lead nowhere."""
    program = next((at for at, word in enumerate(words) if word == "-m" or word.endswith(".py")), len(words) - 1)
    if "-c" in words[:program]:  # an option of the interpreter's: what follows the program is the program's own
        say("note: the code after `-c` is not part of the project: it is not rewritten")
    for word in words[1:]:
        path = Path(os.path.realpath(project.directory / word))
        if word.endswith(".py") and path.is_file() and not path.is_relative_to(project.anchor):
            say(f"note: {word} is outside the project: it is not rewritten")
    for word in words[1:]:
        given = word.rpartition("=")[2]
        if os.path.normpath(given).startswith(os.pardir) and os.path.lexists(project.directory / given):
            real = os.path.realpath(project.directory / given)
            if not Path(real).is_relative_to(project.anchor):
                say(f"note: the copies are elsewhere, so {given} leads to nothing there: write {real}")


def _report_damage(sandbox: Sandbox, say: Say) -> None:
    """Say which files a program changed under other runs: what Python writes is a run's own, what others do is not."""
    if sandbox.damaged:
        say(f"warning: written by no Python code, so other runs may have read it: {listed(sorted({*sandbox.damaged}))}")


def _report_links(sandbox: Sandbox, say: Say) -> None:
    if sandbox.copied > _MUCH:
        say(f"note: {size(sandbox.copied)} are copied once; a run copies of that only what it writes, and its source")
    if sandbox.linked:
        names = _by_folder(sandbox.linked)
        shown = listed([*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])])
        say(f"note: files over {size(LARGE)} and folders of data are linked into the copies, not copied: {shown}")


_NAMED = 4


def _by_folder(linked: Sequence[str]) -> list[str]:
    """Return what is linked: where a folder holds several of it, the folder and how many, at the first one's place."""
    folders: dict[str, list[str]] = {}
    for name in linked:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    several = {folder for folder, names in folders.items() if folder and len(names) > 1}
    found = ((name.rpartition("/")[0], name) for name in linked)
    shown = (f"{counted(len(folders[f]), 'file')} of {f}" if f in several else name for f, name in found)
    return list(dict.fromkeys(shown))


def _report_migration(migration: Migration, say: Say) -> None:
    for error in migration.errors:
        say(f"warning: not rewritten: {error}")
    for note in migration.notes:
        say(f"note: {note}")
    if migration.restored:
        say(f"the project is migrated: {counted(migration.files, 'file')} of the original restored in a copy")
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
