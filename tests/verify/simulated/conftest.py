"""Programs on simulated devices: run in processes of their own, through the environment that `verify` uses."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from torchmigrate.verify.run import simulated_environment

SECONDS = 900  # for the topics of one backend, on a busy machine
BACKENDS = ("cuda", "mps", "xpu", "npu", "mtia")
PROGRAMS = Path(__file__).parent / "programs"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "checks(topic): one test per backend and check in programs/<topic>.py")


@dataclass(frozen=True)
class Ran:
    """What a program did."""

    status: int
    out: str
    err: str

    @property
    def result(self) -> Any:
        """The JSON of the last line that it printed."""
        assert self.status == 0, self.err
        return json.loads(self.out.splitlines()[-1])


def variables(library: str, backend: str, count: int | None, memory: int | None) -> dict[str, str]:
    """One thread each: the tests are quicker, and the numbers the same everywhere."""
    own = {"TORCHMIGRATE_LIBRARY": library, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return {**simulated_environment(backend, count=count, memory=memory), **own}


@pytest.fixture
def simulate(library: str, tmp_path: Path) -> Callable[..., Ran]:
    """Run a program, its file or its text, where a device is simulated."""

    def run(backend: str, program: Path | str, *arguments: str, **more: str) -> Ran:
        if isinstance(program, str):
            (tmp_path / "program.py").write_text(program)
        path = program if isinstance(program, Path) else tmp_path / "program.py"
        own = {**variables(library, backend, None, None), **more}
        command, pipe = [sys.executable, str(path), *arguments], {"capture_output": True, "text": True, "timeout": 600}
        done = subprocess.run(command, env=own, cwd=tmp_path, **pipe)
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


# ---- topics of named checks


@dataclass(frozen=True)
class Check:
    """One check on one backend."""

    backend: str
    name: str
    topic: str


def checks_of(topic: str) -> Iterator[tuple[str, str]]:
    """(backend, name) of what is under `@check` or in `each(...)`, read from the source of programs/<topic>.py."""
    for node in ast.parse((PROGRAMS / f"{topic}.py").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield from ((backend, node.name) for mark in node.decorator_list for backend in _backends(mark))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "each":
            yield from ((backend, key.value) for key in node.value.args[1].keys for backend in BACKENDS)


def _backends(mark: ast.expr) -> list[str]:
    if ast.unparse(mark) == "check":
        return list(BACKENDS)
    if not isinstance(mark, ast.Call) or ast.unparse(mark.func) != "check":
        return []
    told = {k.arg: ast.literal_eval(k.value) for k in mark.keywords}
    return [b for b in told.get("only", BACKENDS) if b not in told.get("but", ())]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("checks")
    if marker is None:
        return
    topic = marker.args[0]
    made = [Check(*pair, topic) for pair in sorted(checks_of(topic), key=lambda pair: BACKENDS.index(pair[0]))]
    metafunc.parametrize("passes", made, indirect=True, ids=[f"{c.backend}-{c.name}" for c in made])


@dataclass(frozen=True)
class Outcomes:
    """What the checks of one backend gave: topic -> check -> "" or a traceback; and what the process said."""

    topics: dict[str, dict[str, str]]
    said: str


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, library: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Backend -> its Outcomes. Each backend's topics run in one process, and the processes at once as far as CPUs go.

    There are two devices, or the one that a Mac has, with 64 MiB each. pytest-xdist's workers have the same tests, and
    share the processes: the first one to make a backend's folder runs its topics."""
    topics: dict[str, dict[str, None]] = {}
    for item in request.session.items:
        check = item.callspec.params.get("passes") if hasattr(item, "callspec") else None
        if check:
            topics.setdefault(check.backend, {})[check.topic] = None

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def run(backend: str, own: dict[str, str]) -> Outcomes:
        folder = shared / f"outcomes-{backend}"
        said = folder / "said"
        try:
            folder.mkdir()
        except FileExistsError:
            end = time.monotonic() + SECONDS
            while not said.exists() and time.monotonic() < end:
                time.sleep(0.1)
        else:
            command = [sys.executable, str(PROGRAMS / "serve.py"), str(folder), *topics[backend]]
            done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True)
            (folder / "ended").write_text(done.stderr)
            (folder / "ended").rename(said)
        return Outcomes({path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}, said.read_text())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {}
        for backend in topics:
            own = variables(library, backend, 1 if backend == "mps" else 2, 64 << 20)  # pytest changes os.environ
            jobs[backend] = pool.submit(run, backend, own)
        yield lambda backend: jobs[backend].result()


@pytest.fixture
def passes(request: pytest.FixtureRequest, outcomes: Callable[[str], Outcomes]) -> Callable[[], None]:
    """Call it: fails with the traceback of the check, if that failed."""
    check = request.param
    found = outcomes(check.backend)

    def passes() -> None:
        nothing = f"{check.name} gave no outcome: {found.said[-4000:]}"
        wrong = found.topics.get(check.topic, {}).get(check.name, nothing)
        if wrong:
            pytest.fail(wrong, pytrace=False)

    return passes
