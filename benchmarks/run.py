"""How much torchmigrate costs, as ratios to floors and to public tools, taken inside one run on one machine.

    python benchmarks/run.py                                   # a generated tree of 10,000 lines
    python benchmarks/run.py --lines 10000 --lines 200000 --lines 1000000 --peers VENV --output DIR
    python benchmarks/run.py PATH [PATH ...]                   # any Python checkout; what writes gets a copy of it

Every round runs all commands in turn, so that a drift of the machine's speed hits all alike. Nothing is asserted: a
number that is out of line is for a person to look at.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import commands
import plot
import tables
from commands import HERE, Command, Place
from measure import TOO_LONG, Ran, run

COPIED = 300_000  # lines: of larger trees there are no four copies


def main() -> None:
    options = arguments()
    results = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        print(machine(options), flush=True)
        for number, tree in enumerate([*options.paths, *options.lines]):
            results.append(measured(tree, scratch / str(number), options))
            print(tables.report(results[-1]), flush=True)
    print(tables.goals(results))
    if options.output:
        write(options.output, machine(options), results)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=lambda text: Path(text).resolve(), help="trees to measure on")
    parser.add_argument("--lines", type=int, action="append", help="size of a generated tree; may be repeated")
    parser.add_argument("-n", "--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torchmigrate's dependencies")
    parser.add_argument("--peers", type=Path, help="virtual environment with the other tools; else those on PATH")
    parser.add_argument("--skip", action="append", default=[], metavar="NAME", help="leave out commands named so")
    parser.add_argument("--patience", type=float, default=20, metavar="S", help="CPU seconds; slower ones run once")
    parser.add_argument("--limit", type=float, default=1800, metavar="S", help="seconds after which one is stopped")
    parser.add_argument("--slow-up-to", type=int, default=250_000, metavar="LINES", help="larger trees: no slow tools")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write report.md, results.json and plots there")
    options = parser.parse_args()
    options.lines = options.lines or ([] if options.paths else [10_000])
    return options


def machine(options: argparse.Namespace) -> str:
    place = Place(Path(), Path(), Path(), options.python, options.peers)
    said = ", ".join(f"{name} {version}" for name, version in commands.versions(place).items())
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    python = subprocess.run([options.python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{python}, {platform.system()}, {os.cpu_count()} cores, load {load:.1f} at that moment. {said}."


def measured(tree: Path | int, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All rounds on one tree."""
    scratch.mkdir()
    trees = [options.python, str(HERE / "trees.py")]
    generated = isinstance(tree, int)
    at = scratch / f"lines{tree}" if isinstance(tree, int) else tree
    if generated:
        subprocess.run([*trees, "generate", str(at), str(tree)], check=True)
    listed = scratch / "triggers"
    said = subprocess.run([*trees, "triggers", str(at), str(listed)], check=True, stdout=subprocess.PIPE)
    shares = json.loads(said.stdout)
    place = Place(at, listed, scratch, options.python, options.peers)
    found = [*commands.floors(place), *commands.ours(place, shares["lines"] <= COPIED), *commands.peers(place)]
    small = shares["lines"] <= options.slow_up_to
    kept = [c for c in found if (small or not c.slow) and not any(name in c.name for name in options.skip)]
    rounds(kept, place, options)
    name = f"A generated tree of {tree:,} lines" if generated else f"`{at.name}`"
    return {
        "name": name,
        "file": at.name,
        "shares": shares,
        "commands": [as_data(command) for command in kept],
        "absent": commands.absent(place),
        "left_out": [command.name for command in found if command not in kept],
        "modules": commands.modules(place),
    }


def rounds(found: Sequence[Command], place: Place, options: argparse.Namespace) -> None:
    """One round that measures memory, and is timed only for what is too slow to run again; then the timed ones."""
    for command in found:
        if command.keeps:  # what fills its cache is not what is measured
            once(command, place, options.limit)
        first = once(command, place, options.limit, memory=True)
        command.peak, command.stopped = first.peak, first.status == TOO_LONG
        if first.cpu > options.patience or command.stopped:
            command.ran.append(first)
    again = [command for command in found if not command.ran]
    for _ in range(options.rounds):
        for command in again:
            command.ran.append(once(command, place, options.limit))


def once(command: Command, place: Place, limit: float, memory: bool = False) -> Ran:
    tree = command.tree or place.tree
    with tempfile.TemporaryDirectory(dir=place.scratch) as name:
        here = Path(name)
        at = shutil.copytree(tree, here / "tree", symlinks=True) if command.copy else tree
        home = place.scratch / "home" if command.keeps else here / "home"
        home.mkdir(exist_ok=True)
        argv = [word.replace("{tree}", str(at)) for word in command.argv]
        return run(argv, here, commands.environment(here, home), limit, memory)


def as_data(command: Command) -> dict[str, Any]:
    statuses = sorted({r.status for r in command.ran})
    timed = {"cpu": command.cpu(), "wall": command.wall(), "peak": command.peak}
    return {"name": command.name, "statuses": statuses, "stopped": command.stopped, **timed}


def write(folder: Path, head: str, results: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([head, *map(tables.report, results), tables.goals(results)])
    (folder / "report.md").write_text(f"{text}\n", encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    for result in results:
        (folder / f"{result['file']}.svg").write_text(plot.bars(result), encoding="utf-8")


if __name__ == "__main__":
    main()
