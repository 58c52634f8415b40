"""Run one project on one backend, in an environment that all its Python processes inherit, and collect the results."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

from torchmigrate.base.text import shorten
from torchmigrate.torch_api.backends import having
from torchmigrate.vcs.git_tree import VARIABLES
from torchmigrate.verify import interpreter
from torchmigrate.verify.backends import Way
from torchmigrate.verify.compare import (
    Line,
    Logged,
    Written,
    by_shape,
    lines,
    made,
    named_devices,
    shape,
    worded,
    written,
)
from torchmigrate.verify.migration import Origins
from torchmigrate.verify.sandbox import Place, Project

if TYPE_CHECKING:
    from torchmigrate.verify.diagnosis.diagnose import Diagnosis
    from torchmigrate.verify.diagnosis.swallowed import Swallowed


SITE = Path(__file__).resolve().parent / "simulated" / "site"


def simulated_environment(
    backend: str,
    *,
    count: int | None = None,
    evidence: str = "simulated",
    tier: str = "native",
    memory: int | None = None,
    reports: Path | None = None,
    project: Path | None = None,
) -> dict[str, str]:
    """Return os.environ with the variables that simulated/startup.py reads.

    `backend`: cuda, mps, xpu, npu, mtia or cpu; `count` devices (default 1); `evidence`: "simulated" activates a
    simulated device, "hardware" and "cpu" only report; `tier`: "native" (C++) or "python"; `memory`: bytes of one
    simulated device; `reports`: a folder for one JSON file per process; `project`: the root of the program's own code.
    """
    variables = {
        "PYTHONPATH": _simulating(os.environ.get("PYTHONPATH", "")),
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "TORCHMIGRATE_BACKEND": f"{backend}:{count or 1}",
        "TORCHMIGRATE_EVIDENCE": evidence,
        "TORCHMIGRATE_TIER": tier,
        "TORCHMIGRATE_MEMORY": str(memory or ""),
        "TORCHMIGRATE_REPORTS": str(reports or ""),
        "TORCHMIGRATE_PROJECT": str(project or ""),
    }
    return {**_without_hardware(backend, evidence), **variables}


def _simulating(path: str) -> str:
    """Return a PYTHONPATH with the sitecustomize that starts the simulated device in front."""
    return os.pathsep.join(filter(None, (str(SITE), path)))


_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES")


def _without_hardware(backend: str, evidence: str) -> dict[str, str]:
    """Return os.environ, changed so that real devices are visible only if the run is meant for them."""
    if evidence == "hardware":
        return {**os.environ, "TORCH_ACCEL_DEVICE": backend}
    if evidence == "cpu":
        return {**os.environ, **dict.fromkeys(_VISIBLE, ""), "TORCH_ACCEL_DEVICE": "cpu"}
    kept = {name: value for name, value in os.environ.items() if name not in (*_VISIBLE, "TORCH_ACCEL_DEVICE")}
    return kept if backend == "cuda" else {**kept, **dict.fromkeys(_VISIBLE, "")}


Report = dict[str, Any]
_OUTPUT = 64 << 20  # bytes of stdout that are read
_PORT_TAKEN = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
_TAIL = 64 << 10  # bytes of stderr
THREAD = "in thread"  # how the recorder begins the place of an exception that ended a thread


@dataclass(frozen=True, slots=True)
class Run:
    """A run is one of the original or rewritten project on a backend.

    `purpose`: "" for a run that is judged or compared with. "numbers" and "fractions" alter such values wherever they
    leave the device, which shows what depends on it; "inputs" alters what reaches the device. Of the original: "repeat"
    shows which numbers are stable; "shared" draws random numbers as a machine without accelerator does, for a
    comparison with one.
    """

    project: Literal["original", "rewritten"]
    way: Way
    purpose: Literal["", "repeat", "numbers", "fractions", "inputs", "shared"] = ""

    @property
    def name(self) -> str:
        return f"{self.project} on {self.way.backend}"

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that the simulated device reads for the run's purpose."""
        if self.purpose == "shared":
            return {"TORCHMIGRATE_GENERATOR": "cpu"}
        return {"TORCHMIGRATE_ALTER": self.purpose} if self.purpose in ("numbers", "fractions", "inputs") else {}


@dataclass(frozen=True, slots=True)
class Task:
    """All runs share these settings.

    `words`: the command; paths into the user's project are moved to the copy. `python`: the interpreter that `python`
    means in the program's scripts; "" leaves it to PATH. `paths`: the directories that it imports from. `library`: the
    built simulated device; "" lets each program find it. `timeout`: seconds. `profile`: a variant of a backend.
    `platform`: whose processes the runs have, "macos" or "linux"; "" is a Mac's for mps.
    """

    words: tuple[str, ...]
    python: str
    project: Project
    timeout: float
    count: int | None = None
    globs: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    library: str = ""
    profile: str = ""
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome has the results of a run.

    `exit`: -N for signal N; None if the run was ended for its time. `seconds`: wall time. `tail`: the last lines of
    stderr, else of stdout. `dropped`: bytes of stdout beyond those that are read. `given_ports`: those that the run was
    to use. `named`: the lines of stdout that name devices, by their shape. `logged`: the lines of stderr that hold
    numbers, by their shape. `swallowed`: what the device refused, for runs that came to their end. `made`: the files
    that it made. `words`: the forms of the lines of stdout that hold words. `kernels` and the like: sums over all
    processes, None if nothing was counted (on hardware and the CPU). `peak_bytes`: the most that one process held on
    one device.
    """

    run: Run
    exit: int | None
    timed_out: bool
    seconds: float
    lines: tuple[Line, ...] = ()
    tail: tuple[str, ...] = ()
    reports: tuple[Report, ...] = ()
    files: Mapping[str, Written] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    dropped: int = 0
    given_ports: frozenset[int] = frozenset()
    named: Mapping[str, frozenset[str]] = field(default_factory=dict)
    logged: Logged = field(default_factory=dict)
    swallowed: tuple[Swallowed, ...] = ()
    made: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    @property
    def said(self) -> frozenset[tuple[str, str]]:
        """The forms of lines that hold words, of stdout and of files that are compared, and where they stand."""
        written = {(name, form) for name, file in self.files.items() for form in file.words}
        return frozenset({("stdout", form) for form in self.words} | written)

    @property
    def kernels(self) -> int | None:
        return _sum(self.reports, "kernels")

    @property
    def operators(self) -> set[str]:
        """Return the operators whose kernels ran on the device, without their variants."""
        names = {name for report in self.reports for name in report.get("operators") or ()}
        return {name.partition("::")[2].partition(".")[0].strip("_") for name in names}

    @property
    def elements(self) -> int | None:
        """Return the number of elements of the tensors that kernels took and gave."""
        return _sum(self.reports, "elements")

    @property
    def products(self) -> int | None:
        """Return the calls of matrix products, convolutions, attention and recurrent nets."""
        return _sum(self.reports, "products")

    @property
    def half_products(self) -> int | None:
        """Return those of them that are computed in float16 or bfloat16."""
        return _sum(self.reports, "half_products")

    @property
    def reads(self) -> int | None:
        """Return how often the host read from the device."""
        return _sum(self.reports, "reads")

    @property
    def altered(self) -> int | None:
        """Return the number of tensors that were altered on their way to the device."""
        return _sum(self.reports, "altered")

    @property
    def parameter_bytes(self) -> int | None:
        """Return the bytes of leaves that want gradients, on all devices of all processes: the most at a time."""
        return _sum(self.reports, "parameter_bytes")

    @property
    def devices(self) -> int:
        """Return the number of devices that all processes saw."""
        return sum(len(report.get("peak_bytes") or ()) for report in self.reports if report.get("kernels"))

    @property
    def tests(self) -> dict[str, str]:
        """Return how each test of pytest and unittest ended: "passed", "skipped" or "failed"."""
        return {name: end for report in self.reports for name, end in (report.get("tests") or {}).items()}

    @property
    def own_files(self) -> set[str]:
        """Return the files of the project that were imported or run, by their path in it."""
        return {file for report in self.reports for file in report.get("files") or ()}

    @property
    def ports(self) -> set[int]:
        """Return the ports at which process groups met."""
        return {port for report in self.reports for port in report.get("ports") or ()}

    @property
    def collided(self) -> bool:
        """Return whether the run failed because a port was taken."""
        texts = [*self.tail, *(str(e.get("message")) for e in (self.exception, self._failure) if e)]
        return self.exit != 0 and any(_PORT_TAKEN.search(text) for text in texts)

    @property
    def random_kernels(self) -> int | None:
        return _sum(self.reports, "random_kernels")

    @property
    def peak_bytes(self) -> int | None:
        return max((peak for report in self.reports for peak in report.get("peak_bytes") or ()), default=None)

    @property
    def exception(self) -> Report | None:
        """Return the exception of the first process that one ended; SystemExit does not count."""
        found = (report.get("exception") for report in self.reports)
        return next((e for e in found if e and e.get("type") != "SystemExit"), None)

    @property
    def _failure(self) -> Report | None:
        """Return the exception that ended a process, else the first one that a test runner or a worker caught."""
        others = (other for report in self.reports for other in report.get("others") or ())
        return self.exception or next(others, None)

    @property
    def uncaught(self) -> dict[str, str]:
        """Return what ended a thread or a child process, each in one line, by its shape. Echoes do not count.

        For a child that ends with a status and no exception, the line tells the status.
        """
        from torchmigrate.verify.diagnosis.failures import is_echo

        records = [report.get("exception") for report in self.reports]
        others = [other for report in self.reports for other in report.get("others") or ()]
        records += [other for other in others if str(other.get("where")).startswith(THREAD)]
        found = [e for e in records if e and not is_echo(e)]
        ends = (end for report in self.reports for end in (report.get("ended") or {}).items())
        texts = [
            *map(describe_exception, found),
            *(f"`{shorten(words, 60)}` ends with {status}" for words, status in ends),
        ]
        return {shape(text): text for text in texts}

    @property
    def stopped(self) -> dict[str, str]:
        """The children that the program ended by another signal than SIGTERM, and that signal, by their shape."""
        ends = [end for report in self.reports for end in (report.get("stopped") or {}).items()]
        return {shape(words): f"`{shorten(words, 60)}` by {_signal_name(-status)}" for words, status in ends}

    @property
    def spread(self) -> int:
        """Return the number of devices that are some process's main one, on which it holds the most."""
        peaks = [report["peak_bytes"] for report in self.reports if any(report.get("peak_bytes") or ())]
        return len({each.index(max(each)) for each in peaks})

    @property
    def error(self) -> str | None:
        """Return one line that says why the run failed; None if it ended with exit status 0."""
        if self.timed_out:
            return "still running when its time was up"
        if self.exit == 0:
            return None
        if self.exit is not None and self.exit < 0:
            return f"ended by {_signal_name(-self.exit)}"
        if failure := self._failure:
            return describe_exception(failure)
        return next((line.strip() for line in reversed(self.tail) if line.strip()), f"exit status {self.exit}")


def _sum(reports: Sequence[Report], key: str) -> int | None:
    counted = [report[key] for report in reports if report.get(key) is not None]
    return sum(counted) if counted else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_exception(exception: Report) -> str:
    """Return an exception in one line: the last one of a traceback that its message quotes."""
    lines = [line.strip() for line in str(exception.get("message", "")).splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        return lines[-1]
    return f"{exception.get('type')}: {lines[0]}" if lines else str(exception.get("type"))


def execute(run: Run, task: Task, place: Place, origins: Origins, stop: Event) -> Outcome:
    """Run the program to its end and collect the results; raises Stopped when `stop` is set."""
    out, err = place.reports.with_name("stdout"), place.reports.with_name("stderr")
    moved = [_move_to_copy(word, task.project, place) for word in task.words]
    variables = environment(run, task, place)
    ended = interpreter.run(moved, place.directory, variables, out, err, task.timeout, stop)
    reports, stderr = _read_reports(place.reports), _read_tail(err)
    for report in reports:
        report["files"] = [os.path.relpath(file, place.root) for file in report.get("files") or ()]
    output = _read_output(out, place)
    diagnosis = None
    if ended.status != 0 or any(report.get("exception") or report.get("others") for report in reports):
        from torchmigrate.verify.diagnosis.diagnose import diagnose

        diagnosis = diagnose(reports, origins.moved(place.root), place.root, stderr)
    met: tuple[Swallowed, ...] = ()
    if any(report.get("refused") for report in reports):
        from torchmigrate.verify.diagnosis.swallowed import swallowed

        met = swallowed(reports, origins.moved(place.root))
    return Outcome(
        run,
        ended.status,
        ended.timed_out,
        ended.seconds,
        tuple(lines(output)),
        tuple((stderr if stderr.strip() else _read_tail(out)).splitlines()),
        tuple(reports),
        written(place.base, place.root, task.globs, place.kept),
        diagnosis,
        max(0, out.stat().st_size - _OUTPUT),
        frozenset(int(variables[name]) for name in _PORTS if variables.get(name, "").isdecimal()),
        named_devices(output),
        by_shape(lines(_read_output(err, place))),
        met,
        made(place.base, place.root),
        worded(output),
    )


def environment(run: Run, task: Task, place: Place) -> dict[str, str]:
    """Return the run's environment: the user's, the backend's, and variables that keep the run in its copy."""
    way = run.way
    made = simulated_environment(
        way.backend,
        count=_device_count(way, task.count),
        evidence=way.evidence,
        tier=way.tier,
        reports=place.reports,
        project=place.root,
    )
    for name in VARIABLES:  # a git hook sets these, for another tree
        made.pop(name, None)
    made |= {"TMPDIR": os.fspath(place.scratch), **task.variables}
    if "PYTHONPATH" in task.variables:
        made["PYTHONPATH"] = _simulating(task.variables["PYTHONPATH"])
    for name in _PORTS:  # runs at the same time must not meet
        if name == _LAUNCHER or name in made:
            made[name] = str(_free_port())
    return {
        **made,
        "PYTHONPATH": _import_path(made["PYTHONPATH"], task, place),
        "PATH": _search_path(made.get("PATH", ""), task.python),
        "TORCHMIGRATE_READONLY": os.fspath(task.project.anchor),
        "TORCHMIGRATE_SHARED": os.fspath(place.base),
        "TORCHMIGRATE_LIBRARY": task.library,
        "TORCHMIGRATE_PROFILE": task.profile,
        "TORCHMIGRATE_PLATFORM": task.platform or ("macos" if way.backend == "mps" else ""),
        **run.variables,
    }


_LAUNCHER = "PET_MASTER_PORT"  # torchrun's own variable for its option --master-port
_PORTS = ("MASTER_PORT", _LAUNCHER)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _device_count(way: Way, count: int | None) -> int | None:
    """Return the number of devices to ask for; MPS and the CPU have exactly one."""
    return None if way.backend in having("single") else count


def _search_path(path: str, python: str) -> str:
    """Put the chosen interpreter first on PATH, so that `python` in the project's shell scripts means it."""
    return os.pathsep.join(filter(None, (os.path.dirname(python), path)))


def _import_path(path: str, task: Task, place: Place) -> str:
    """Return PYTHONPATH for the copy: our sitecustomize, then the copy's counterparts of project directories."""
    ours, *rest = path.split(os.pathsep)
    anchor = task.project.anchor
    inside = [p for p in task.paths if Path(p).is_relative_to(anchor) and "site-packages" not in Path(p).parts]
    copies = [os.fspath(task.project.within(place.root, Path(p))) for p in inside]
    moved = [_move_to_copy(p, task.project, place) for p in rest if p not in inside]
    return os.pathsep.join(dict.fromkeys([ours, *copies, *moved]))


def _move_to_copy(word: str, project: Project, place: Place) -> str:
    """Move a path into the project, alone or in `--name=PATH`, to the copy; return other words unchanged."""
    head, equals, path = word.rpartition("=")
    if not os.path.isabs(path):
        return word
    real = Path(os.path.realpath(path)) if not os.path.islink(path) else Path(os.path.abspath(path))
    if not real.is_relative_to(project.anchor):
        return word
    return f"{head}{equals}{project.within(place.root, real)}"


def _read_output(path: Path, place: Place) -> str:
    """Return stdout, with the copy's location replaced by the same text in all runs."""
    with path.open("rb") as file:
        text = file.read(_OUTPUT).decode(errors="replace")
    return text.replace(os.fspath(place.root.parent), "<copy>")


def _read_tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode(errors="replace")


def _read_reports(directory: Path) -> list[Report]:
    """Return the reports of all processes, in the order in which the processes ended."""
    files = sorted(directory.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    found = []
    for file in files:
        try:
            found.append(json.loads(file.read_text(encoding="utf-8")))
        except ValueError:
            continue  # cut short: the process was killed
    return [report for report in found if isinstance(report, dict)]
