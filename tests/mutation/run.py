"""Mutation testing: does a test notice when a line says something else?

    python tests/mutation/run.py [GROUP ...] [--seed 7] [--number 60] [--only FILE:LINE ...]

Draws `number` mutants from each group (`operators.py`; by a hash of the seed and the mutant's own line, so that the
draw stays as it is while other lines change) and runs the tests meant for the file (`groups.py`) until one fails: in a
copy of the tree, and in a forked process that has the heavy imports already. A mutant is killed by a failure, or by
taking a minute. Prints each result and a table; README.md explains survivors.
Needs a system that can fork, and of packages the extra `test`."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from mutation.groups import GROUPS, Group
from mutation.operators import Mutant, mutants

ROOT = Path(__file__).parents[2]
_SECONDS = 60  # of the processor's, for one run of pytest; the slowest takes a fourth of it
_SLEEPS = 15  # times that, by the clock, for one that waits
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant: "killed", "timeout" or "survived"."""

    path: str
    mutant: Mutant
    outcome: str

    def __str__(self) -> str:
        return f"{self.outcome:8} {self.path}:{self.mutant.line}: {self.mutant.where}"


def drawn(root: Path, files: Sequence[str], seed: int, number: int) -> list[tuple[str, Mutant]]:
    """The sample, in the order of files and lines."""
    every = [(file, m) for file in files for m in mutants((root / file).read_bytes())]
    every.sort(key=lambda pair: hashlib.sha256(f"{seed} {pair[0]} {pair[1].where}".encode()).digest())
    return sorted(every[:number], key=lambda pair: (pair[0], pair[1].line))


class Tree:
    """A copy of the project, in which one file at a time is a mutant."""

    def __init__(self, root: Path, copy: Path) -> None:
        self.root = copy
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", ".*_cache"))

    def outcome(self, path: str, mutant: Mutant, stages: Iterable[Sequence[str]]) -> str:
        file = self.root / path
        raw, status = file.read_bytes(), file.stat()
        file.write_bytes(mutant.applied(raw))
        outcomes = (self.run(tests) for tests in stages)
        found = next((each for each in outcomes if each != "survived"), "survived")
        file.write_bytes(raw)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # so that its bytecode is still its own
        return found

    def run(self, tests: Sequence[str], seconds: int = _SECONDS) -> str:
        process = _FORK.Process(target=_pytest, args=(self.root, tests, seconds))
        process.start()
        process.join(_SLEEPS * seconds)
        late = process.exitcode is None
        if late:
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        if late or process.exitcode == -signal.SIGXCPU:
            return "timeout"
        return "killed" if process.exitcode else "survived"


def _pytest(root: Path, tests: Sequence[str], seconds: int) -> None:
    import pytest

    os.setpgid(0, 0)
    os.chdir(root)
    os.environ.update(PYTHONPATH=str(root), PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(root))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    sys.exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))


def results(root: Path, group: Group, sample: Sequence[tuple[str, Mutant]]) -> Iterator[Result]:
    """What became of each; not before all their tests pass without a mutant."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(root, Path(folder, "tree"))
        stages = (tests for path, _ in sample for tests in group.stages(path))
        tests = sorted({test for stage in stages for test in stage if test.endswith(".py")})
        if tree.run(tests, 10 * _SECONDS) != "survived":
            raise SystemExit(f"fails without a mutant: pytest {' '.join(tests)}")
        for path, mutant in sample:
            yield Result(path, mutant, tree.outcome(path, mutant, group.stages(path)))


def row(name: str, found: Sequence[Result]) -> str:
    """One line of the table."""
    outcomes = [each.outcome for each in found]
    survived = outcomes.count("survived")
    score = 1 - survived / len(found)
    counts = (outcomes.count("killed"), outcomes.count("timeout"), survived)
    return f"| {name} | {len(found)} | {' | '.join(map(str, counts))} | {score:.0%} |"


def main() -> None:
    """The table, after the results as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=[*GROUPS])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--only", nargs="*", default=[""], help="of the draw, those that start so: FILE:LINE")
    options = parser.parse_args()
    rows = []
    for name in options.groups:
        group = GROUPS[name]
        for module in group.imports:
            importlib.import_module(module)
        sample = drawn(ROOT, group.files(ROOT), options.seed, options.number)
        sample = [(p, m) for p, m in sample if f"{p}:{m.line}:".startswith(tuple(options.only))]
        found = []
        for result in results(ROOT, group, sample):
            print(result, flush=True)
            found.append(result)
        rows.append(row(name, found))
    print("\n| group | mutants | killed | timeout | survived | score |\n|---|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
