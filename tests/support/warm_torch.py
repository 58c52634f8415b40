"""Programs that import torch, each in a fork of a process that has imported it: the import is most of their cost.

Where the environment simulates a device, the process does so, too, and a fork goes on as the start of an interpreter
would: with its own reports, protected folder and seeds. Tests of that start, and of how processes end, take a fresh
interpreter instead.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 400  # for one program, on a busy machine: it has taken minutes there
IDLE = 60  # seconds in which a program computes nothing: it hangs, as gloo's threads do that wait for one another
HUNG = -14  # as by SIGALRM
# What an interpreter or `import torch` reads: processes that differ in these share nothing.
READ_AT_START = ("CUDA_", "LD_", "MKL_", "OMP_", "PYTHON", "PYTORCH_", "TORCH_", "TORCHMIGRATE_")
OWN_OF_EACH = (
    "PYTHONPATH",
    "TORCH_ACCEL_DEVICE",
    "TORCH_ACCEL_LOG",
    "TORCHMIGRATE_CACHE_DIR",
    "TORCHMIGRATE_PROJECT",
    "TORCHMIGRATE_READONLY",
    "TORCHMIGRATE_REPORTS",
    "TORCHMIGRATE_SHARED",
)
TRAINING = ("torch", "torch._dynamo")  # which the first optimizer imports
SITE = Path(__file__).parents[2] / "torchmigrate" / "verify" / "simulated" / "site"


class Warm:
    """The process, as tests see it."""

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str]) -> None:
        self.lock = threading.Lock()
        command, pipe = [sys.executable, __file__, *modules], subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        atexit.register(self.process.communicate)

    def run(self, told: Mapping[str, object]) -> int:
        with self.lock:
            assert self.process.stdin and self.process.stdout
            print(json.dumps(told), file=self.process.stdin, flush=True)
            return int(self.process.stdout.readline())


@functools.cache
def _process(environment: tuple[tuple[str, str], ...], modules: tuple[str, ...]) -> Warm:
    return Warm(dict(environment), modules)


_starting = threading.Lock()


def _warm(environment: Mapping[str, str], modules: tuple[str, ...]) -> Warm:
    """The process for programs of this environment, started at the first of them."""
    shared = {n: v for n, v in environment.items() if n.startswith(READ_AT_START) and n not in OWN_OF_EACH}
    if "TORCHMIGRATE_BACKEND" in shared:
        shared["PYTHONPATH"] = str(SITE)
    common = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    with _starting:
        return _process(tuple(sorted({**common, **shared}.items())), modules)


def run_into(
    out: Path,
    err: Path,
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    modules: tuple[str, ...] = ("torch",),
    idle: float = IDLE,
) -> int:
    """The exit status of `python WORDS`, its streams in files; HUNG if it takes longer than SECONDS, or only waits.

    A process for a few programs alone costs more than it saves: starting one is importing its `modules`.
    """
    told = {
        "words": list(words),
        "cwd": str(cwd),
        "environment": dict(environment),
        "streams": [str(out), str(err)],
        "idle": idle,
    }
    status = _warm(environment, modules).run(told)
    if (
        status == HUNG and idle == IDLE
    ):  # gloo's threads wait for one another at times: a program that hangs does so again
        status = _warm(environment, modules).run(told)
    return status


def run(
    words: Sequence[str], cwd: Path, environment: Mapping[str, str], modules: tuple[str, ...] = ("torch",)
) -> subprocess.CompletedProcess[str]:
    """`python WORDS`; the words begin with a script, `-m` or `-c`."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder, name) for name in ("out", "err"))
        status = run_into(out, err, words, cwd, environment, modules)
        texts = [path.read_text(encoding="utf-8") for path in (out, err)]
    return subprocess.CompletedProcess(words, status, *texts)


def run_of_verify(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    timeout: float,
    stop: threading.Event,
) -> object:
    """What verify/interpreter.py's `run` does, but in a fork, and without the watch over what it leaves."""
    from torchmigrate.verify.interpreter import Ended

    assert os.path.basename(command[0]).startswith("python")
    status = run_into(stdout, stderr, command[1:], directory, environment, TRAINING)
    return Ended(status, timed_out=False, seconds=0.1)


# ---- in that process


def _next() -> dict[str, object]:
    """In a fork, what it has to run; the process itself never returns."""
    for line in sys.stdin:
        told = dict(json.loads(line))
        idle = told.pop("idle")
        child = os.fork()
        if child == 0:
            os.setsid()
            return told
        print(_await(child, idle, told["streams"][1]), flush=True)
    sys.exit()


def _await(child: int, idle: float, err: str) -> int:
    """The exit status of a fork; one that hangs is ended with its process group, and its stderr says where and why."""
    began = looked = worked = now = time.monotonic()
    spent = marked = -1
    least = 0.02 * os.sysconf("SC_CLK_TCK")  # ticks a second: threads that only wait wake up now and then
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(min(0.05, (now - began) / 50))
        now = time.monotonic()
        if now - looked > min(1, idle / 4):
            looked, spent = now, _ticks(child)
            if spent is not None and (marked < 0 or spent < marked or spent - marked > least * (now - worked)):
                worked, marked = now, spent
        if now - worked > idle or now - began > SECONDS:
            _end_group(child)
            why = f"nothing computed for {idle:g} s" if now - worked > idle else f"not done after {SECONDS} s"
            with open(err, "a", encoding="utf-8") as file:
                print(f"\nwarm_torch: {why}: ended with its process group", file=file)
            return HUNG
    return os.waitstatus_to_exitcode(ended[1])


def _ticks(group: int) -> int | None:
    """The processor time of a process group; None, which is always the same, where there is no /proc."""
    total = None
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            _, _, rest = path.read_text().rpartition(") ")
            fields = rest.split()  # from the third, the state, on
            if int(fields[2]) == group:
                total = (total or 0) + sum(map(int, fields[11:15]))
    return total


def _end_group(child: int) -> None:
    """First the fork alone, by a signal that makes it say where it is."""
    os.kill(child, -HUNG)
    for _ in range(40):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _become(words: list[str], cwd: str, environment: dict[str, str], streams: list[str]) -> None:
    """Go on as `python WORDS` would."""
    for number, path in enumerate((os.devnull, *streams)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0), 0o600), number)
    faulthandler.register(-HUNG, file=2, chain=True)  # says where it hung
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.orig_argv[:] = [sys.executable, *words]
    path = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [*path, *(each for each in sys.path[1:] if each not in path)]
    if "torchmigrate_simulated" in sys.modules:
        _restart_the_simulation()
    _end(_run_as_main(words))


def _end(status: int) -> None:
    """As an interpreter ends, but for taking torch apart, which takes longer than most programs here."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _restart_the_simulation() -> None:
    """What startup.prepare() and its step after `import torch` do for one program; the device is there already."""
    import random

    import torch
    from torchmigrate_simulated import startup, write_protection  # type: ignore[import-not-found]
    from torchmigrate_simulated.profiles import Settings  # type: ignore[import-not-found]

    settings = Settings.read(os.environ)
    if settings.backend == "mps":
        # Its generator was seeded, so that this fork is a bad one to torch.mps, which is then not seeded; as on a Mac
        torch.mps._is_in_bad_fork = lambda: False
    startup.write_lines()
    random.seed(startup._SEED)
    if settings.reports:
        importlib.import_module("multiprocessing.popen_fork")  # which the recorder watches
    startup._install_recorder(settings)
    write_protection.install(settings.readonly, settings.project, settings.shared)
    write_protection.protect_torch(settings.readonly, settings.project, settings.shared)
    if "numpy" in sys.modules:
        startup._seed_numpy()
    startup._seed_torch()


def _run_as_main(words: list[str]) -> int:
    """The exit status."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main)["__builtins__"] = __builtins__
    kind, *rest = words
    try:
        if kind == "-m":
            sys.argv = ["-m", *rest[1:]]
            sys.path.insert(0, os.getcwd())
            runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
        elif kind == "-c":
            sys.argv = ["-c", *rest[1:]]
            sys.path.insert(0, "")
            exec(compile(rest[0], "<string>", "exec"), vars(main))
        else:
            sys.argv = words
            sys.path.insert(0, os.path.dirname(os.path.realpath(kind)))
            main.__file__ = os.path.abspath(kind)
            exec(compile(Path(kind).read_bytes(), main.__file__, "exec"), vars(main))
    except SystemExit as error:
        if isinstance(error.code, int | None):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        ours, told = __file__, error.__traceback__
        while told and told.tb_next and told.tb_frame.f_code.co_filename == ours:
            told = told.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error.with_traceback(told), told
        sys.excepthook(type(error), error, told)
        return 1
    return 0


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a fork that collects would copy all of torch
    _become(**_next())  # type: ignore[arg-type]
