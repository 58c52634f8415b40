"""Run a small project in this process, on the fake torch of one world, and return what it prints and how it ends."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import io
import json
import os
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from unittest import mock

from six_worlds import fake_torch

SECONDS = 1.5  # of CPU: a program that takes longer hangs


@dataclass(frozen=True)
class Project:
    """The files of a program by path, `main.py` or `main.ipynb` among them, with the input that a user gives it.

    `{own}` in an argument or an environment variable stands for the world's own device.
    """

    files: Mapping[str, str]
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Death:
    """The exception that ended a program, and the lines of the program that it came through, the innermost last."""

    kind: str
    message: str
    lacks: str = ""  # the kind of device that torch or a library missed
    refused: bool = False  # the program itself raised it
    trail: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a program did in one world."""

    said: str
    death: Death | None = None

    @property
    def text(self) -> str:
        """What it printed, and as the last line what it died of."""
        if self.death is None:
            return self.said
        return f"{self.said}\nDIED {self.death.kind}: {self.death.message}".strip()


class Hangs(BaseException):
    """A program takes too long."""


@functools.lru_cache(maxsize=4096)
def compiled(source: str, name: str) -> types.CodeType:
    return compile(source, name, "exec", dont_inherit=True)


class Loader:
    """Execute one file of a project as a module."""

    def __init__(self, source: str, name: str) -> None:
        self.source, self.name = source, name

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compiled(self.source, self.name), module.__dict__)


class Finder:
    """Find the modules of one project, which lie in memory."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self.folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        place = name.replace(".", "/")
        for file, package in ((f"{place}/__init__.py", True), (f"{place}.py", False)):
            if file in self.files:
                return importlib.util.spec_from_loader(name, Loader(self.files[file], file), is_package=package)
        if place in self.folders:
            return importlib.util.spec_from_loader(name, Loader("", f"{place}/__init__.py"), is_package=True)
        return None

    def modules(self) -> Iterator[str]:
        """Yield the names of the project's modules that are loaded."""
        tops = {PurePosixPath(name).parts[0].removesuffix(".py") for name in self.files}
        return (name for name in [*sys.modules] if name.partition(".")[0] in tops)


def cells(book: str) -> Iterator[str]:
    """Yield the source of each code cell of a notebook."""
    for cell in json.loads(book)["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def sources(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of what runs as the main program, cell by cell if it is a notebook."""
    if "main.ipynb" in files:
        yield from ((f"main.ipynb[{i}]", source) for i, source in enumerate(cells(files["main.ipynb"])))
    else:
        yield "main.py", files["main.py"]


def texts(files: Mapping[str, str]) -> dict[str, str]:
    """Return the Python text of each file and cell."""
    plain = {name: text for name, text in files.items() if name.endswith(".py")}
    return {**plain, **dict(sources(files))}


@contextlib.contextmanager
def _in_world(files: Mapping[str, str], machine: fake_torch.FakeMachine) -> Iterator[types.ModuleType]:
    """Put the machine's modules and the project's finder in place, and take them away afterwards."""
    finder, main = Finder(files), types.ModuleType("__main__")
    hidden = {name: sys.modules[name] for name in machine.modules if name in sys.modules}
    own, path, stdout, stderr = sys.modules["__main__"], sys.meta_path[:], sys.stdout, sys.stderr
    machine.world.reset()
    sys.modules.update(machine.modules)
    sys.modules["__main__"] = main
    sys.meta_path.insert(0, finder)
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    try:
        yield main
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        sys.meta_path[:] = path
        sys.modules["__main__"] = own
        for name in [*machine.modules, *finder.modules()]:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


@contextlib.contextmanager
def _with_input(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[None]:
    own = sys.argv
    sys.argv = ["main.py", *argv]
    try:
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "0,1", **env}):  # a program may set variables, too
            yield
    finally:
        sys.argv = own


def _hangs(*args: object) -> None:
    raise Hangs(f"takes more than {SECONDS} seconds")


def _death(error: BaseException, program: Mapping[str, str]) -> Death:
    message = str(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in program]
    lacks = getattr(error, "lacks", "")
    if not frames:
        return Death(type(error).__name__, message, lacks)
    trail = tuple((f.filename, f.lineno or 0) for f in frames)
    file, line = trail[-1]
    statement = program[file].splitlines()[line - 1].strip() if program[file] else ""
    refused = not lacks and (isinstance(error, SystemExit) or statement.startswith(("raise", "assert")))
    return Death(type(error).__name__, message, lacks, refused, trail)


def run(
    project: Project,
    world: str,
    tracer: Callable[..., Any] | None = None,
    machine: fake_torch.FakeMachine | None = None,
) -> Outcome:
    """Run a project's main program in a world; the real torch must be out of the way (`fake_torch.no_torch`)."""
    machine = machine or fake_torch.machine(world)
    own = machine.world.kind or "cpu"
    argv = [word.replace("{own}", own) for word in project.argv]
    env = {name: value.replace("{own}", own) for name, value in project.env.items()}
    death = None
    with _in_world(project.files, machine) as main, _with_input(argv, env):
        before = signal.signal(signal.SIGPROF, _hangs)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            for name, source in sources(project.files):
                code = compiled(source, name)
                sys.settrace(tracer)
                exec(code, main.__dict__)
        except BaseException as error:
            if not isinstance(error, SystemExit) or error.code not in (0, None):
                death = _death(error, texts(project.files))
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            said = sys.stdout.getvalue().strip()  # type: ignore[attr-defined]
    return Outcome(said, death)


def run_everywhere(project: Project) -> dict[str, Outcome]:
    """Run a project in all six worlds."""
    return {world: run(project, world) for world in fake_torch.WORLDS}


def lines_reached(project: Project, world: str, lenient: bool = False) -> set[tuple[str, int]]:
    """Return the lines of a project, by file, that run in a world.

    Those of a `lenient` one would run if it died of no device that is missing, and of no two that meet.
    """
    reached: set[tuple[str, int]] = set()
    ours = texts(project.files)

    def tracer(frame: types.FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in ours:
            return None
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return tracer

    machine = fake_torch.machine(world)
    machine.world.lenient = lenient
    try:
        run(project, world, tracer)
    finally:
        machine.world.lenient = False
    return reached
