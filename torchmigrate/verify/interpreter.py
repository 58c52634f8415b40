"""Find the Python that runs a command, ask that Python about its torch, and run commands with a time limit."""

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

from torchmigrate.base import system
from torchmigrate.base.text import UserError
from torchmigrate.verify.compare import Arrays

PROBE = Path(__file__).with_name("probe.py")
ARRAYS = Path(__file__).parent / "simulated" / "arrays.py"
SECONDS = 180  # seconds, enough to import torch from a cold disk and to wake up a driver
_PYTHON = re.compile(r"python(?:[23](?:\.\d+)?)?(?:\.exe)?")


@dataclass(frozen=True, slots=True)
class Device:
    """A device is a real accelerator of this machine; `error` says why it does not compute although torch lists it."""

    count: int
    name: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter is a Python executable with its import paths and its torch.

    `torch`: the version, None if it has none (`error` says why). `build`: the platforms torch was built for, with
    versions.
    """

    executable: str
    python: str = ""
    torch: str | None = None
    error: str | None = None
    build: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, Device] = field(default_factory=dict)
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command has an absolute `words[0]`, and an interpreter; `note` says why that one, if not obvious."""

    words: tuple[str, ...]
    interpreter: Interpreter
    note: str = ""


def probe(executable: str) -> Interpreter:
    """Ask a Python for its version, torch and devices; takes as long as importing torch."""
    command = [executable, "-c", PROBE.read_text(encoding="utf-8")]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL, cwd=os.sep
        )
        answer = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        return Interpreter(executable, error=f"importing torch took more than {SECONDS} s")
    except (OSError, ValueError):
        return Interpreter(executable, error="it does not run Python code")
    devices = {name: Device(**device) for name, device in answer.get("devices", {}).items()}
    build = {name: version for name, version in answer.get("build", {}).items() if version}
    return Interpreter(
        executable, answer["python"], answer["torch"], answer["error"], build, devices, tuple(answer.get("paths", ()))
    )


def compare_arrays(executable: str, tasks: Sequence[tuple[str, str, str, float]]) -> dict[str, Arrays]:
    """Compare files (first, second, found, tolerance) by their arrays, in a Python that has torch.

    The results are by the path of `found`.
    """
    command = [executable, os.fspath(ARRAYS)]
    try:
        done = subprocess.run(
            command, input=json.dumps(tasks), capture_output=True, text=True, timeout=SECONDS, check=False, cwd=os.sep
        )
        answers = [Arrays(**answer) for answer in json.loads(done.stdout)]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        answers = [Arrays(0, None, str(error))] * len(tasks)
    return {task[2]: answer for task, answer in zip(tasks, answers, strict=True)}


def resolve(words: Sequence[str], directory: Path) -> Command:
    """Find the executable of a command and its Python; raises UserError if either, or torch, is missing.

    The word `python` means the one on PATH if that has torch, else ours. Relative commands are looked up in
    `directory`.
    """
    if _PYTHON.fullmatch(words[0]):
        return _python(words)
    path = _find(words[0], directory)
    shebang = path if _PYTHON.fullmatch(os.path.basename(path)) else _shebang(path)
    if shebang is None:
        command = _python(["python"])
        return Command((path, *words[1:]), command.interpreter, command.note)
    found = probe(shebang)
    _require_torch(found)
    return Command((path, *words[1:]), found)


def choose(path: Path | None) -> Interpreter:
    """Return the Python at `path`, else the one on PATH if it has torch, else our own; raises UserError."""
    if path is not None:
        found = probe(_find(os.path.abspath(path) if path.exists() else os.fspath(path), Path()))
        if not found.python:
            raise UserError(f"{path}: {found.error}", "name a Python, as --python .venv/bin/python")
        return found
    there = shutil.which("python")
    first = probe(there) if there else None
    return first if first and first.torch else probe(sys.executable)


def _python(words: Sequence[str]) -> Command:
    """Resolve a `python` command to the one on PATH if it has torch, else to our own."""
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
            "name the project's own Python, as in `-- .venv/bin/python train.py`, or activate its environment",
        )
    why = f"{words[0]} on PATH: {first.error}" if first else f"no {words[0]} on PATH"
    return Command((own.executable, *words[1:]), own, f"using {own.executable} ({why})")


def _require_torch(found: Interpreter) -> None:
    if found.torch is None:
        raise UserError(f"{found.executable}: {found.error}", "run the program in an environment that has torch")


def _find(name: str, directory: Path) -> str:
    """Find a command on PATH or beside our Python, or a path from `directory` or here; raises UserError."""
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
    """Return the Python that a script names in its first line, or None."""
    with open(path, "rb") as file:
        line = file.readline(400)
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    named = next((w for w in words if _PYTHON.fullmatch(os.path.basename(w))), None)
    return named if named is None or os.path.isabs(named) else shutil.which(named)


# Without site-packages, so that it starts fast: what it imports of ours lies in this folder, behind all of Python's.
_SUPERVISOR = f"""
import sys
sys.path.append({os.fspath(Path(__file__).parents[2])!r})
from torchmigrate.verify import supervisor
sys.exit(supervisor.main(sys.argv[1:]))
"""
_TICK = 0.05
_PATIENCE = 20.0  # seconds for a supervisor to end everything: more than its own limits


@dataclass(frozen=True, slots=True)
class Ended:
    """The result says how a command ended, and after how many seconds.

    `status`: the exit status, -N for signal N, 127 if the command could not be started; None if the supervisor ended
    it.
    """

    status: int | None
    timed_out: bool
    seconds: float


class Stopped(Exception):
    """The run was ended because the whole verification stops."""


def run(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    timeout: float,
    stop: Event,
) -> Ended:
    """Run a command, its output to files, for at most `timeout` seconds; raises Stopped once `stop` is set."""
    words = [sys.executable, "-I", "-S", "-c", _SUPERVISOR, str(directory), str(stdout), str(stderr), *command]
    began = time.monotonic()
    supervisor = subprocess.Popen(
        words, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **system.apart()
    )
    try:
        timed_out = _wait(supervisor, began + timeout, stop)
    finally:
        status = _stop(supervisor)
    if stop.is_set():
        raise Stopped
    return Ended(int(status) if status and not timed_out else None, timed_out, time.monotonic() - began)


def _wait(supervisor: subprocess.Popen[bytes], deadline: float, stop: Event) -> bool:
    """Wait for the supervisor; return whether the deadline passed."""
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(_TICK)
            return False
        if time.monotonic() > deadline:
            return True
    return False


def _stop(supervisor: subprocess.Popen[bytes]) -> bytes:
    """Close the supervisor's stdin, which makes it end everything; return its output, the exit status."""
    assert supervisor.stdin
    with contextlib.suppress(OSError):
        supervisor.stdin.close()
    supervisor.stdin = None  # `communicate` would flush it
    try:
        return supervisor.communicate(timeout=_PATIENCE)[0]
    except subprocess.TimeoutExpired:
        supervisor.kill()
        return supervisor.communicate()[0]
