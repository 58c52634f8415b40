"""Compare the fake torch with the real one: the same programs, original and migrated, must do the same on both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from six_worlds import fake_torch
from six_worlds.migrating import migrated, rules_read_once
from six_worlds.running import Outcome, Project, run
from six_worlds.sketch import program

CHILD = Path(__file__).with_name("real_torch.py")
Real = tuple[str, str | None, str | None]  # what was said, the kind of exception, its message


def on_real_torch(projects: Iterable[Project], world: str, names: Sequence[str] = ()) -> tuple[list[Real], list[str]]:
    """Run projects on the real torch of a CPU; return their outcomes, and those of the names that it has."""
    lines = [json.dumps([dict(p.files), p.argv, dict(p.env)]) for p in projects]
    command = [sys.executable, "-W", "ignore", str(CHILD), world]
    done = subprocess.run(command, input="\n".join([*lines, json.dumps(names)]), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    *outcomes, there = (json.loads(line) for line in done.stdout.splitlines())
    return [tuple(o) for o in outcomes], there


def summary(outcome: Outcome) -> Real:
    death = outcome.death
    return outcome.said, death and death.kind, death and death.message


def programs(count: int, seed: int, world: str) -> Iterator[Project]:
    """Yield programs, original and migrated, that the real torch can run in a world."""
    first = seed * 1_000_003
    for number in range(first, first + count):
        project, _ = program(number, real="cpu" if world == "cpu" else "everywhere")
        yield project
        yield migrated(project)


def differences(count: int, seed: int, world: str) -> Iterator[str]:
    """Yield what the fake torch does otherwise than the real one."""
    with fake_torch.no_torch(), rules_read_once():
        projects = list(programs(count, seed, world))
        fake = [summary(run(project, world)) for project in projects]
    missed = sorted(f"{module}.{name}" for module, name in fake_torch.machine(world).world.missed)
    real, there = on_real_torch(projects, world, missed)
    for project, ours, theirs in zip(projects, fake, real, strict=True):
        if ours != theirs:
            yield f"{project.files.get('main.py', '')}\n  fake {ours}\n  real {theirs}"
    yield from (f"the fake has no {name}" for name in there)


def main(count: int, seed: int) -> int:
    """Print the differences in all worlds; return the exit status."""
    found = 0
    for world in fake_torch.WORLDS:
        different = list(differences(count, seed, world))
        for difference in different[:3]:
            print(f"--- {world}\n{difference}")
        print(f"{world}: {len(different)} of {2 * count} runs differ from the real torch", flush=True)
        found += len(different)
    return int(bool(found))
