"""The helper's whole surface on each simulated backend, with one and with two devices: the checks of surface/."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from runtime.surface import BACKENDS, CAPACITY, load

from torchmigrate import runtime
from torchmigrate.verify.run import simulated_environment

SURFACE = Path(__file__).parent / "surface"
IMPORTED = os.pathsep.join(str(SURFACE.parents[i]) for i in (1, 2))
CHECKS = load()
CONFIGURATIONS = [(backend, count) for backend in BACKENDS for count in (1, 2) if (backend, count) != ("mps", 2)]
CASES = [(b, n, each.name) for b, n in CONFIGURATIONS for each in CHECKS.values() if each.runs_on(b, n)]
Outcomes = dict[str, str]


def environment(backend: str, count: int, library: str) -> dict[str, str]:
    variables = simulated_environment(backend, count=count, memory=CAPACITY)
    variables["PYTHONPATH"] += os.pathsep + IMPORTED
    return {**variables, "TORCHMIGRATE_LIBRARY": library, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def run(variables: dict[str, str], file: Path, folder: Path) -> tuple[Outcomes, str]:
    """Check -> "" or a traceback; and what the process said."""
    done = subprocess.run(
        [sys.executable, "-m", "runtime.surface", str(file)],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return (json.loads(file.read_text()) if file.exists() else {}), f"exit {done.returncode}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="session")
def outcomes(
    request: pytest.FixtureRequest, library: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., tuple[Outcomes, str]]]:
    """One process for each backend and count of the tests that are to run, two at a time."""
    folder = tmp_path_factory.mktemp("surface")
    cases = [
        item.callspec.params["case"]
        for item in request.session.items
        if item.path == Path(__file__) and "outcomes" in item.fixturenames
    ]
    with ThreadPoolExecutor(2) as pool:
        started: dict[tuple[str, int], Future] = {}
        for backend, count, _ in cases:
            if (backend, count) not in started:
                variables = environment(backend, count, library)  # not in a thread: pytest changes os.environ
                started[backend, count] = pool.submit(run, variables, folder / f"{backend}-{count}.json", folder)
        yield lambda backend, count: started[backend, count].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", CASES, ids=["-".join(map(str, case)) for case in CASES])
def test_surface(case: tuple[str, int, str], outcomes: Callable[..., tuple[Outcomes, str]]) -> None:
    backend, count, name = case
    found, said = outcomes(backend, count)
    wrong = found.get(name, f"{name} gave no outcome: {said}")
    if wrong:
        pytest.fail(wrong, pytrace=False)


# ---- is it the whole surface?


def public_names() -> set[str]:
    """The helper's functions, classes and namespaces."""
    named = {name for name in vars(runtime) if not name.startswith("_")} - {"Any", "annotations"}
    return {name for name in named if not isinstance(getattr(runtime, name), types.ModuleType)}


def used_by(checks: ast.Module) -> dict[str, set[str]]:
    """Function of a topic -> the helper's names that it uses, itself or in what it calls in this topic."""
    defined = {node.name: node for node in checks.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}

    def reached(name: str, seen: set[str]) -> set[str]:
        seen.add(name)
        for node in ast.walk(defined[name]):
            if isinstance(node, ast.Name) and node.id in defined.keys() - seen:
                reached(node.id, seen)
        return seen

    def named(node: ast.AST) -> set[str]:
        attributes = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
        return {each.attr for each in attributes if isinstance(each.value, ast.Name) and each.value.id == "accel"}

    return {name: {n for each in reached(name, set()) for n in named(defined[each])} for name in defined}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_name_is_checked_on_every_backend(backend: str) -> None:
    used: set[str] = set()
    for topic in SURFACE.glob("[a-z]*.py"):
        functions = used_by(ast.parse(topic.read_text()))
        here = [n for n in functions if n in CHECKS and any(CHECKS[n].runs_on(backend, count) for count in (1, 2))]
        used |= {name for function in here for name in functions[function]}
    assert public_names() - used == set()
    assert len(public_names()) > 60
