"""Machine instructions of short runs, counted by callgrind: they hardly depend on what else the machine does.

    python benchmarks/instructions.py [--python PYTHON] [--functions 15]

A check of one clean file and an apply that rewrites one, with the steps on the way there, so that the first row that
has grown says where. For the last two also what the costliest C functions take themselves, and what the interpreter's
loop calls. Instructions are not time, but a regression shows in them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from commands import CLEAN, ONE, PASS, ROOT, TYPER, environment

STARTED = "import torchmigrate.cli.app"
_LOOP = "_PyEval_EvalFrameDefault"
_ROW = re.compile(r"\s*([\d,]+) \([^)]*\)\s+(?:([*>])\s+)?(?:[^ ]*:)?([^\s\[]+).*")  # without the file and the library

Costs = list[tuple[int, str]]  # instructions, function


@dataclass(frozen=True, slots=True)
class Counted:
    """A program's instructions; `own`: in a function itself; `called`: in what the interpreter's loop calls, with all
    that this calls, as far as no other loop runs in it."""

    name: str
    instructions: int
    own: Costs
    called: Costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--functions", type=int, default=15, help="how many of the costliest to show")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: it counts the instructions")
    with tempfile.TemporaryDirectory() as name:
        counted = [count(what, argv, Path(name)) for what, argv in programs(options.python, Path(name)).items()]
    print(report(counted, options.functions))


def programs(python: str, place: Path) -> Mapping[str, Sequence[str]]:
    """By what they are called; the files that they work on are in `place`."""
    (place / "clean.py").write_text("x = 1\n")
    one = place / "one"
    one.mkdir()
    shutil.copy(ROOT / "fixtures" / "cnn" / "train.py", one)
    tool = [python, "-m", "torchmigrate"]
    rest = ["-q", "--isolated", "--no-cache"]
    return {
        PASS: [python, "-c", "pass"],
        TYPER: [python, "-c", "import typer"],
        STARTED: [python, "-c", "import torchmigrate.cli.app"],
        CLEAN: [*tool, "check", *rest, str(place / "clean.py")],
        ONE: [*tool, "apply", *rest, "--allow-dirty", str(one / "train.py")],
    }


def count(name: str, argv: Sequence[str], place: Path) -> Counted:
    """Raises RuntimeError where the program fails under valgrind."""
    out = place / "callgrind.out"
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    fixed = {**environment(place, place / "home"), "PYTHONHASHSEED": "0"}
    done = subprocess.run([*valgrind, *argv], cwd=place, env=fixed, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not out.exists():
        raise RuntimeError(f"{name}: {done.stderr[-500:]}")
    own, tree = _annotated(out), _annotated(out, "--inclusive=yes", "--tree=calling")
    out.unlink()
    return Counted(name, total(own), costs(own), called(tree))


def _annotated(out: Path, *options: str) -> str:
    argv = ["callgrind_annotate", "--auto=no", "--threshold=100", *options, str(out)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def total(annotated: str) -> int:
    """The program's instructions, of callgrind_annotate's text."""
    row = next(line for line in annotated.splitlines() if "PROGRAM TOTALS" in line)
    return int(row.split()[0].replace(",", ""))


def _rows(annotated: str) -> Iterator[tuple[int, str | None, str]]:
    """Instructions, `*` for a function and `>` for one that it calls, name."""
    for line in annotated.splitlines():
        if (row := _ROW.fullmatch(line)) and not row[0].endswith("PROGRAM TOTALS"):
            yield int(row[1].replace(",", "")), row[2], row[3]


def costs(annotated: str) -> Costs:
    """By function, the costliest first; a recursive one is one."""
    found: Counter[str] = Counter()
    for number, _, name in _rows(annotated):
        found[name.partition("'")[0]] += number
    return [(number, name) for name, number in found.most_common()]


def called(annotated: str) -> Costs:
    """What the loop calls; of what runs inside of itself only the outermost."""
    found: Counter[str] = Counter()
    inside = False
    for number, mark, name in _rows(annotated):
        if mark == "*":
            inside = name.startswith(_LOOP)
        elif inside and "'" not in name and not name.startswith(("0x", _LOOP)):
            found[name] += number
    return [(number, name) for name, number in found.most_common()]


def report(counted: Sequence[Counted], shown: int) -> str:
    """The totals as ratios to the first, and what the last two spend them on."""
    base = counted[0].instructions
    lines = ["| program | instructions, millions | / python -c pass |", "| --- | --- | --- |"]
    lines += [f"| {c.name} | {c.instructions / 1e6:.1f} | {c.instructions / base:.2f} |" for c in counted]
    for of in counted[-2:]:
        for what, found in (("in the function itself", of.own), ("in what the interpreter's loop calls", of.called)):
            lines += ["", f"{of.name}, {what}:", "", "| function | instructions, millions | share |"]
            lines.append("| --- | --- | --- |")
            lines += [f"| {name} | {n / 1e6:.1f} | {n / of.instructions:.1%} |" for n, name in found[:shown]]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
