"""The projects under fixtures/ on simulated devices: on cuda the migrated one prints what the original prints, to the
digit; on mps, xpu and npu within a tolerance; never from the CPU.

What they do on the CPU itself: engine/test_fixtures.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm_torch
from fixture_projects import DEFAULTS, FIXTURES, SPAWNS, SPEC, copy_project, expected_changes

from torchmigrate.verify.compare import Kind, Line, Tolerance, compare, lines, reference
from torchmigrate.verify.run import simulated_environment

BACKENDS = ("mps", "xpu", "npu")
DEVICES = {"ddp": 2}
ENVIRONMENT = {name: value for name, value in DEFAULTS["env"].items() if name != "CUDA_VISIBLE_DEVICES"}
TOLERANCE = Tolerance(relative=1e-3, same_backend=False)
UNLIKE = re.compile(r"(?:cuda version:|written with cuda|free ).*")  # None and, on MPS, unknown
SECONDS = 600  # for one command, on a busy machine

# where all of a project runs on the CPU: MPS has no collectives, so a group's processes get the CPU there
ON_CPU = {("ddp", "mps")}


@dataclass(frozen=True)
class Ran:
    """One command of fixtures.toml."""

    command: str
    status: int
    out: str
    err: str
    kernels: int
    """Launched on the device, by all its processes."""

    @property
    def numbers(self) -> list[Line]:
        """To compare across backends."""
        return lines(UNLIKE.sub("", self.out))

    @property
    def values(self) -> list[tuple[str, list[str]]]:
        """Each line's form and numbers as printed, without times."""
        return [(each.shape, [n.text for n in each.numbers if n.kind is not Kind.TIME]) for each in lines(self.out)]


@dataclass(frozen=True)
class Job:
    """A project, before or after its migration, on a simulated backend."""

    name: str
    migrated: bool
    backend: str
    devices: int

    def __str__(self) -> str:
        return f"{self.name}-{'migrated' if self.migrated else 'original'}-{self.backend}-{self.devices}"


def original(name: str, devices: int = 0) -> Job:
    return Job(name, False, "cuda", devices or DEVICES.get(name, 1))


def migrated(name: str, backend: str, devices: int = 0) -> Job:
    return Job(name, True, backend, devices or (1 if backend == "mps" else DEVICES.get(name, 1)))


def prepare(job: Job, folder: Path) -> Path:
    project = copy_project(job.name, folder)
    for path, content in expected_changes(job.name).items() if job.migrated else ():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_bytes(content)
    return project


def launch(command: list[str], job: Job, variables: dict[str, str], project: Path, reports: Path) -> Ran:
    assert command[0] == "python"
    words = [word.replace("{fixtures}", str(FIXTURES)) for word in command[1:]]
    more = {"TORCHMIGRATE_REPORTS": str(reports), "PYTHONIOENCODING": "utf-8"}
    own = {**variables, **ENVIRONMENT, **SPEC[job.name].get("env", {}), **more}
    if job.name in SPAWNS:
        streams = {"capture_output": True, "text": True, "encoding": "utf-8"}
        done = subprocess.run([sys.executable, *words], cwd=project, env=own, timeout=SECONDS, **streams)
    else:
        done = warm_torch.run(words, project, own, warm_torch.TRAINING)
    told = [json.loads(path.read_text()) for path in reports.glob("*.json")]
    kernels = sum(each["kernels"] or 0 for each in told)
    return Ran(" ".join(command), done.returncode, done.stdout, done.stderr, kernels)


def run(job: Job, variables: dict[str, str], folder: Path) -> list[Ran]:
    """All commands in one copy, up to the first that fails."""
    place = folder / str(job)
    project, done = prepare(job, place), []
    for at, step in enumerate(SPEC[job.name]["run"]):
        done.append(launch(step["command"], job, variables, project, place / f"reports-{at}"))
        if done[-1].status != 0:
            break
    return done


# ---- two jobs at a time, while the first tests wait for theirs; pytest changes os.environ meanwhile


@pytest.fixture(scope="session")
def runs(
    request: pytest.FixtureRequest, library: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Job], list[Ran]]]:
    folder = tmp_path_factory.mktemp("simulated")
    with ThreadPoolExecutor(2) as pool:
        started: dict[Job, Future[list[Ran]]] = {}
        for item in request.session.items:
            if item.path == Path(__file__) and "runs" in item.fixturenames and not item.get_closest_marker("skip"):
                for job in item.callspec.params["jobs"]:
                    if job not in started:
                        variables = simulated_environment(job.backend, count=job.devices)  # not in a thread, see above
                        started[job] = pool.submit(run, job, {**variables, "TORCHMIGRATE_LIBRARY": library}, folder)
        yield lambda job: started[job].result()
        pool.shutdown(cancel_futures=True)


# ---- tests


Runs = Callable[[Job], list[Ran]]


def each_project(*jobs: Callable[[str], Job]) -> Any:
    return pytest.mark.parametrize("jobs", [tuple(job(name) for job in jobs) for name in SPEC], ids=list(SPEC))


def elsewhere(backend: str, name: str) -> Any:
    return pytest.param((original(name), migrated(name, backend)), id=f"{backend}-{name}")


def succeeded(found: list[Ran]) -> list[Ran]:
    assert found[-1].status == 0, f"{found[-1].command}\n{found[-1].out}\n{found[-1].err[-6000:]}"
    return found


def on_the_device(before: Ran, after: Ran) -> None:
    """Whatever ran on it before still does. (Some commands say `--device cpu`.)"""
    assert after.kernels > 0 or before.kernels == 0, f"{after.command} ran on the CPU"


def same_on_cuda(jobs: tuple[Job, Job], runs: Runs) -> str:
    """The output."""
    for before, after in zip(*(succeeded(runs(job)) for job in jobs), strict=True):
        assert after.values == before.values, before.command
        on_the_device(before, after)
    return after.out


@each_project(original)
def test_original_runs_on_a_simulated_cuda(jobs: tuple[Job], runs: Runs) -> None:
    """As it is, which without CUDA it mostly does not: tests/engine/test_fixtures.py, test_original."""
    assert any(each.kernels for each in succeeded(runs(jobs[0])))


@each_project(original, lambda name: migrated(name, "cuda"))
def test_migrated_is_the_same_on_cuda(jobs: tuple[Job, Job], runs: Runs) -> None:
    same_on_cuda(jobs, runs)


@pytest.mark.parametrize("jobs", [(original("resnet", 2), migrated("resnet", "cuda", 2))], ids=["resnet"])
def test_migrated_is_the_same_on_two_devices(jobs: tuple[Job, Job], runs: Runs) -> None:
    """DataParallel takes both."""
    assert "GPUs: 2" in same_on_cuda(jobs, runs)


# All on MPS, which refuses most; on each of the other two what is peculiar to some backend, and every other project.
# Process groups are on both in simulated/test_distributed.py, test_launchers: three processes for each run take long.
EVERYWHERE = {"package", "inference"}
TURNS = {name: BACKENDS[1 + number % 2] for number, name in enumerate(sorted(SPEC))}
PLACES = [(b, n) for b in BACKENDS for n in SPEC if b in ("mps", TURNS[n]) or n in EVERYWHERE]


@pytest.mark.parametrize("jobs", [elsewhere(*place) for place in PLACES])
def test_migrated_runs_elsewhere(jobs: tuple[Job, Job], runs: Runs) -> None:
    numbers = 0
    for before, after in zip(*(succeeded(runs(job)) for job in jobs), strict=True):
        found = compare(reference(before.numbers, before.numbers), after.numbers, TOLERANCE)
        assert found.difference is None, f"{before.command}: {found.difference}"
        if (jobs[1].name, jobs[1].backend) in ON_CPU:
            assert not after.kernels
        else:
            on_the_device(before, after)
        numbers += found.numbers
    assert numbers > 0
