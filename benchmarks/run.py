"""How much torchmigrate costs, as ratios to floors and to public tools, taken inside one run on one machine.

    python benchmarks/run.py                          # a generated tree of 10,000 lines
    python benchmarks/run.py --lines 200000 -n 5
    python benchmarks/run.py PATH [PATH ...]          # any Python checkout; it is copied, never written

Every round runs all commands in turn, so that a drift of the machine's speed hits all alike. CPU seconds are those of
the command's whole process tree. Nothing is asserted: a number that is out of line is for a person to look at.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
CLEAN_SHARE = 4  # lines of the standard library, where there is nothing to do, for each line of a fixture
WALK = """import ast, gc, os, sys
gc.disable()
for top, _, names in os.walk(sys.argv[1]):
  for name in names:
    if name.endswith('.py'):
      data = open(os.path.join(top, name), 'rb').read()
"""
AST = """      if b'cuda' in data:
        try: ast.parse(data)
        except (SyntaxError, ValueError): pass
"""


@dataclass
class Command:
    """`copy`: it writes, and gets a fresh copy of the tree, which is not timed."""

    name: str
    argv: list[str]
    copy: bool = False
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for tree in [*options.paths, *(generate(scratch / f"lines{n}", n) for n in options.lines)]:
            print(f"\n{describe(tree)}")
            commands, absent = commands_for(tree, scratch)
            for number in range(options.rounds + 1):
                for command in commands:
                    measure(command, tree, scratch, timed=number > 0)
            report(commands, absent)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="trees to measure on")
    parser.add_argument("--lines", type=int, action="append", help="size of a generated tree; may be repeated")
    parser.add_argument("-n", "--rounds", type=int, default=3)
    options = parser.parse_args()
    options.lines = options.lines or ([] if options.paths else [10_000])
    return options


# ---- trees
def generate(root: Path, lines: int) -> Path:
    """Copies of the fixtures and, beside each, modules of the standard library, until there are enough lines."""
    fixtures = [p for p in sorted(FIXTURES.rglob("*.py")) if "expected" not in p.parts]
    library = _endless(sorted(Path(os.__file__).parent.glob("*.py")))
    copy = total = clean = 0
    while total < lines:
        for source in fixtures:
            total += _copied(source, root / f"copy{copy}" / source.relative_to(FIXTURES))
            while clean < total * CLEAN_SHARE / (1 + CLEAN_SHARE):
                module = next(library)
                size = _copied(module, root / f"copy{copy}" / "library" / f"{clean}_{module.name}")
                clean, total = clean + size, total + size
            if total >= lines:
                return root
        copy += 1
    return root


def _endless(paths: Sequence[Path]) -> Iterator[Path]:
    while True:
        yield from (p for p in paths if b"cuda" not in p.read_bytes())


def _copied(source: Path, target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    raw = source.read_bytes()
    target.write_bytes(raw)
    return raw.count(b"\n")


def describe(tree: Path) -> str:
    texts = [p.read_bytes() for p in tree.rglob("*.py") if p.is_file()]
    hold = sum(b"cuda" in t for t in texts)
    lines = sum(t.count(b"\n") for t in texts)
    return f"{tree.name}: {len(texts)} files, {lines} lines, {hold} files with a trigger"


# ---- commands
def commands_for(tree: Path, scratch: Path) -> tuple[list[Command], list[str]]:
    clean = scratch / "clean.py"
    clean.write_text("x = 1\n")
    python, tool = sys.executable, [sys.executable, "-m", "torchmigrate"]
    check = [*tool, "check", "--no-cache", "--isolated", "-q"]
    found = [
        Command("read every .py", [python, "-c", WALK, "{tree}"]),
        Command("ast.parse, files with a trigger", [python, "-c", WALK + AST, "{tree}"]),
        Command("torchmigrate check -j1", [*check, "-j1", "{tree}"]),
        Command("torchmigrate check -j2", [*check, "-j2", "{tree}"]),
        Command(
            "torchmigrate apply -j2", [*tool, "apply", "--isolated", "-q", "--allow-dirty", "-j2", "{tree}"], copy=True
        ),
        Command("python -c pass", [python, "-c", "pass"]),
        Command('python -c "import typer"', [python, "-c", "import typer"]),
        Command("torchmigrate check, one clean file", [*check, str(clean)]),
    ]
    peers = {
        "ruff": ["check", "--isolated", "--no-cache", "-q", "--exit-zero", "--select", "F401,F821,UP,E711", "{tree}"],
        "ast-grep": ["run", "-l", "py", "-p", "$X.cuda($$$A)", "-r", "$X.to(device)", "{tree}"],
        "semgrep": ["--metrics=off", "-q", "--lang", "py", "-e", "$X.cuda(...)", "{tree}"],
        "torchfix": ["--select", "ALL", "{tree}"],
    }
    absent = []
    for name, rest in peers.items():
        program = shutil.which(name) or shutil.which(name, path=str(Path(python).parent))
        if program:
            found.append(Command(f"{name} {'check --no-cache' if name == 'ruff' else ''}".strip(), [program, *rest]))
        else:
            absent.append(name)
    return found, absent


def measure(command: Command, tree: Path, scratch: Path, timed: bool) -> None:
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        at = Path(shutil.copytree(tree, Path(place) / "tree")) if command.copy else tree.resolve()
        argv = [word.replace("{tree}", str(at)) for word in command.argv]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        homes = {f"XDG_{kind}_HOME": place for kind in ("CACHE", "STATE", "DATA", "CONFIG")}
        before, start = _children(), time.perf_counter()
        ran = subprocess.run(
            argv,
            cwd=place,
            env=environment | homes | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        wall, cpu = time.perf_counter() - start, _children() - before
    if timed:
        command.wall.append(wall)
        command.cpu.append(cpu)
        command.statuses.add(ran.returncode)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- the tables
def report(commands: Sequence[Command], absent: Sequence[str]) -> None:
    by_name = {c.name: c for c in commands}
    print(f"\n| command | CPU s | spread | wall s | status |\n|{'---|' * 5}")
    for c in commands:
        status = ", ".join(map(str, sorted(c.statuses)))
        cpu, wall = statistics.median(c.cpu), statistics.median(c.wall)
        print(f"| {c.name} | {cpu:.3f} | {_spread(c.cpu)} | {wall:.3f} | {status} |")
    if absent:
        print(f"\nNot installed here: {', '.join(absent)}.")
    print(f"\n| ratio | of | median | spread |\n|{'---|' * 4}")
    for label, measured, top, bottom in RATIOS:
        if top in by_name and bottom in by_name:
            pairs = zip(getattr(by_name[top], measured), getattr(by_name[bottom], measured), strict=True)
            ratios = [a / max(b, 1e-3) for a, b in pairs]
            print(f"| {label} | {measured} | {statistics.median(ratios):.2f} | {_spread(ratios)} |")


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.3f}-{max(values):.3f}"


_AST, _J1, _J2, _APPLY, _RUFF = (
    *("ast.parse, files with a trigger", "torchmigrate check -j1", "torchmigrate check -j2", "torchmigrate apply -j2"),
    "ruff check --no-cache",
)
RATIOS = (
    ("check -j1 / ast.parse of the files with a trigger", "cpu", _J1, _AST),
    ("check -j1 / reading every file", "cpu", _J1, "read every .py"),
    ("check -j2 / check -j1", "wall", _J2, _J1),
    ("apply / check", "cpu", _APPLY, _J2),
    ("check / ruff", "cpu", _J2, _RUFF),
    ("check / ruff", "wall", _J2, _RUFF),
    ("apply / ruff", "cpu", _APPLY, _RUFF),
    ("check / ast-grep", "cpu", _J2, "ast-grep"),
    ("check / semgrep", "cpu", _J2, "semgrep"),
    ("check / TorchFix", "cpu", _J2, "torchfix"),
    (
        "check of one clean file / import typer",
        "wall",
        "torchmigrate check, one clean file",
        'python -c "import typer"',
    ),
    ("check of one clean file / python -c pass", "wall", "torchmigrate check, one clean file", "python -c pass"),
)

if __name__ == "__main__":
    main()
