"""Which Python runs a command, and what its torch is: asked in that Python, never here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from torchmigrate.base.text import UserError

PROBE = Path(__file__).with_name("probe.py")
SECONDS = 180  # the first import of torch from a cold disk, and a driver that wakes up
_PYTHON = re.compile(r"python(?:[23](?:\.\d+)?)?(?:\.exe)?")


@dataclass(frozen=True, slots=True)
class Device:
    """A real accelerator of this machine. `error`: torch names it, but it does not compute."""

    count: int
    name: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python. `torch` is its version, None where it has none (`error` says why). `build`: what torch was built
    for, by platform. `paths`: where it imports from."""

    executable: str
    python: str = ""
    torch: str | None = None
    error: str | None = None
    build: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, Device] = field(default_factory=dict)
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """What is run: `words[0]` is an absolute path. `interpreter` is the Python behind it; `note` says what was
    chosen."""

    words: tuple[str, ...]
    interpreter: Interpreter
    note: str = ""


def probe(executable: str) -> Interpreter:
    """Ask one Python. Takes as long as importing torch does."""
    command = [executable, "-c", PROBE.read_text(encoding="utf-8")]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL, cwd=os.sep
        )
        told = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        return Interpreter(executable, error=f"importing torch took more than {SECONDS} s")
    except (OSError, ValueError):
        return Interpreter(executable, error="it does not run Python code")
    devices = {name: Device(**device) for name, device in told.get("devices", {}).items()}
    build = {name: version for name, version in told.get("build", {}).items() if version}
    return Interpreter(
        executable, told["python"], told["torch"], told["error"], build, devices, tuple(told.get("paths", ()))
    )


def resolve(words: Sequence[str], directory: Path) -> Command:
    """Find the command and its Python: `python` is the one on PATH if that has torch, else the one that runs
    torchmigrate. `directory` is where relative commands are looked up. Raises UserError where there is no such
    command, or no torch."""
    if _PYTHON.fullmatch(words[0]):
        return _python(words)
    path = _find(words[0], directory)
    shebang = path if _PYTHON.fullmatch(os.path.basename(path)) else _shebang(path)
    if shebang is None:
        command = _python(["python"])
        return Command((path, *words[1:]), command.interpreter, command.note)
    found = probe(shebang)
    _demand_torch(found)
    return Command((path, *words[1:]), found)


def choose(path: Path | None) -> Interpreter:
    """The Python at this path; else the one on PATH if it has torch; else our own, torch or not. Raises UserError."""
    if path is not None:
        found = probe(_find(os.path.abspath(path) if path.exists() else os.fspath(path), Path()))
        if not found.python:
            raise UserError(f"{path}: {found.error}", "name a Python, as --python .venv/bin/python")
        return found
    there = shutil.which("python")
    first = probe(there) if there else None
    return first if first and first.torch else probe(sys.executable)


def _python(words: Sequence[str]) -> Command:
    """The first of the two that has torch."""
    there = shutil.which(words[0])
    first = probe(there) if there else None
    if first and first.torch:
        return Command((first.executable, *words[1:]), first)
    own = probe(sys.executable)
    if own.torch is None:
        tried = [f"  {i.executable}: {i.error}" for i in (first, own) if i]
        listed = "\n".join(dict.fromkeys(tried))
        raise UserError(
            f"no Python with torch found\n{listed}",
            "pip install 'torchmigrate[verify]', or activate the project's environment",
        )
    why = f"{words[0]} on PATH: {first.error}" if first else f"no {words[0]} on PATH"
    return Command((own.executable, *words[1:]), own, f"using {own.executable} ({why})")


def _demand_torch(found: Interpreter) -> None:
    if found.torch is None:
        raise UserError(f"{found.executable}: {found.error}", "run the program in an environment that has torch")


def _find(name: str, directory: Path) -> str:
    """On PATH or beside the Python that runs torchmigrate; a path is relative to the project, or to where we are."""
    if os.path.dirname(name):
        places = (os.path.abspath(os.path.join(base, name)) for base in (directory, os.curdir))
        found = next(filter(os.path.isfile, places), None)
    else:
        found = shutil.which(name) or shutil.which(name, path=os.path.dirname(sys.executable))
    if found is None:
        raise UserError(f"{name}: no such command", "name one that is on PATH, or give its path")
    if not os.access(found, os.X_OK):
        raise UserError(f"{name}: not executable", f"if it is Python: python {name}")
    return found


def _shebang(path: str) -> str | None:
    """The Python that a script names in its first line."""
    with open(path, "rb") as file:
        line = file.readline(400)
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    named = next((w for w in words if _PYTHON.fullmatch(os.path.basename(w))), None)
    return named if named is None or os.path.isabs(named) else shutil.which(named)


_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_TICK = 0.05
_PATIENCE = 20.0  # seconds for a supervisor to end all: more than its own limits


@dataclass(frozen=True, slots=True)
class Ended:
    """`status` is the exit status, -N for signal N, 127 for a command that could not be started; None: it was
    ended here, for its time (`timed_out`) or because all stops. `seconds` of wall time."""

    status: int | None
    timed_out: bool
    seconds: float


class Stopped(Exception):
    """The run was ended because all of them are to stop."""


def run(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    timeout: float,
    stop: Event,
) -> Ended:
    """Run to the end, to `timeout` seconds or until `stop` is set (raises Stopped). Output goes to the two files."""
    words = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(directory), str(stdout), str(stderr), *command]
    began = time.monotonic()
    supervisor = subprocess.Popen(
        words, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        timed_out = _wait(supervisor, began + timeout, stop)
    finally:
        said = _end(supervisor)
    if stop.is_set():
        raise Stopped
    return Ended(int(said) if said and not timed_out else None, timed_out, time.monotonic() - began)


def _wait(supervisor: subprocess.Popen[bytes], deadline: float, stop: Event) -> bool:
    """Whether its time was up."""
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(_TICK)
            return False
        if time.monotonic() > deadline:
            return True
    return False


def _end(supervisor: subprocess.Popen[bytes]) -> bytes:
    """Closing its stdin is the sign; what it says is the status."""
    assert supervisor.stdin
    with contextlib.suppress(OSError):
        supervisor.stdin.close()
    supervisor.stdin = None  # `communicate` would flush it
    try:
        return supervisor.communicate(timeout=_PATIENCE)[0]
    except subprocess.TimeoutExpired:
        supervisor.kill()
        return supervisor.communicate()[0]
