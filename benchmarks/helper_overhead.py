"""What the helper costs against the plain call: per call, per training step, in memory, at import, in graph breaks.

    python benchmarks/helper_overhead.py                          # on the CPU
    python benchmarks/helper_overhead.py --backend cuda           # on the hardware if it is here, else simulated
    python benchmarks/helper_overhead.py --part steps --rounds 50 --json FILE

Every measurement has an interpreter of its own, with the helper as accel.py on its path. Steps are timed in turn:
plain, helper, plain. Instructions are counted by valgrind's callgrind, where it is installed. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import py_compile
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helper_report import report

ROOT = Path(__file__).resolve().parent.parent
WORKER = Path(__file__).with_name("helper_measure.py")
BACKENDS = ("cpu", "cuda", "mps", "xpu", "npu")
PARTS = ("steps", "calls", "instructions", "memory", "imports", "graph_breaks")
RESAMPLES = 2000
FACTS = "import platform, torch; print(torch.__version__, platform.python_version())"
THERE = "import torch; print(getattr(getattr(torch, '{0}', None), 'is_available', bool)() and '{0}' != 'cpu')"


@dataclass(frozen=True)
class Place:
    """Where the measured interpreters run: environment, and a folder with the helper as accel.py."""

    kind: str
    evidence: str
    environment: dict[str, str]
    folder: Path

    def run(self, part: str, options: dict[str, Any], prefix: Sequence[str] = (), folder: str = "cached") -> Any:
        """One part's answer. Raises SystemExit with the worker's own words where it fails."""
        path = [str(self.folder / folder), self.environment.get("PYTHONPATH", "")]
        argv = [*prefix, sys.executable, str(WORKER), part, json.dumps({"kind": self.kind, **options})]
        environment = {**self.environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{part} failed:\n{done.stderr[-4000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        place = prepare(options.backend, options.helper, Path(scratch))
        found: dict[str, Any] = {"backend": place.kind, "evidence": place.evidence, **facts(place)}
        for part in options.part or PARTS:
            found[part] = MEASURE[part](place, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(report(found))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=BACKENDS, default="cpu")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; may be repeated")
    parser.add_argument("--rounds", type=int, default=20, help="a quarter of them where each is a fresh interpreter")
    parser.add_argument("--helper", type=Path, default=ROOT / "torchmigrate" / "runtime.py", help="another copy of it")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


# ---- where it runs
def prepare(kind: str, helper: Path, scratch: Path) -> Place:
    """The hardware where torch finds it; else a simulated device, which torchmigrate.verify brings."""
    for folder in ("cached", "bare"):  # with a .pyc and without
        (scratch / folder).mkdir()
        shutil.copy(helper, scratch / folder / "accel.py")
    py_compile.compile(str(scratch / "cached" / "accel.py"), doraise=True)
    evidence = "cpu" if kind == "cpu" else "hardware" if _answer(THERE.format(kind)) == "True" else "simulated"
    clean = {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
    return Place(kind, evidence, {**_environment(kind, evidence), **clean}, scratch)


def _environment(kind: str, evidence: str) -> dict[str, str]:
    if evidence != "simulated":
        return {**os.environ, "TORCH_ACCEL_DEVICE": kind}
    sys.path.insert(0, str(ROOT))
    from torchmigrate.verify.run import simulated_environment

    return simulated_environment(kind)


def _answer(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def facts(place: Place) -> dict[str, Any]:
    torch, python = _answer(FACTS).split()
    return {"torch": torch, "python": python, "machine": f"{platform.machine()}, {os.cpu_count()} cores"}


# ---- the parts
def steps(place: Place, rounds: int) -> list[dict[str, Any]]:
    """Per program: CPU microseconds of a plain step, and what the helper's takes more, in percent."""
    return [_step(row) for row in place.run("steps", {"rounds": rounds})]


def _step(row: dict[str, Any]) -> dict[str, Any]:
    seconds = row["seconds"]
    micros = statistics.median(seconds["plain"] + seconds["again"]) * 1e6
    both = [(a + b) / 2 for a, b in zip(seconds["plain"], seconds["again"], strict=True)]
    return {
        "program": row["program"],
        "steps": row["steps"],
        "plain_us": round(micros, 1),
        "helper_percent": _percent(seconds["helper"], both),
        "noise_percent": _percent(seconds["again"], seconds["plain"]),
        "equal": row["equal"],
    }


def _percent(measured: Sequence[float], base: Sequence[float]) -> dict[str, float]:
    """The median over the rounds of measured / base - 1, in percent, with a 95 % bootstrap interval of that median."""
    ratios = [(a / b - 1) * 100 for a, b in zip(measured, base, strict=True)]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    low, high = medians[int(RESAMPLES * 0.025)], medians[int(RESAMPLES * 0.975)]
    return {"median": round(statistics.median(ratios), 2), "low": round(low, 2), "high": round(high, 2)}


def calls(place: Place, rounds: int) -> list[dict[str, Any]]:
    return list(place.run("calls", {"rounds": rounds}))


def instructions(place: Place, rounds: int) -> dict[str, Any]:
    """Instructions per call and per step; `absent` says why where they cannot be counted."""
    if not shutil.which("valgrind"):
        return {"absent": "valgrind is not installed"}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        try:
            rows = place.run("instructions", {}, ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"])
        except SystemExit as error:
            return {"absent": str(error).splitlines()[-1]}
        return _sorted_counts(rows, [_total(Path(f"{out}.{2 * n + 2}")) / row["number"] for n, row in enumerate(rows)])


def _total(dump: Path) -> int:
    return int(re.findall(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)[-1])


def _sorted_counts(regions: list[dict[str, Any]], counts: list[float]) -> dict[str, Any]:
    empty = counts[0]
    found: dict[str, dict[str, Any]] = {"calls": {}, "steps": {}}
    for row, count in zip(regions[1:], counts[1:], strict=True):
        if "call" in row:
            found["calls"].setdefault(row["call"], {})[row["side"]] = round(count - empty)
        else:
            found["steps"].setdefault(row["program"], {}).setdefault(row["side"], []).append(round(count))
    for sides in found["steps"].values():
        plain = statistics.mean(sides["plain"] + sides["again"])
        sides["helper_percent"] = round((statistics.mean(sides["helper"]) / plain - 1) * 100, 3)
        sides["noise_percent"] = round((statistics.mean(sides["again"]) / statistics.mean(sides["plain"]) - 1) * 100, 3)
    return found


def memory(place: Place, rounds: int) -> dict[str, Any]:
    """Bytes that importing the helper and asking it for the device adds, and those of a program's tensors."""
    without, with_it = [], []
    for _ in range(max(1, rounds // 4)):
        without.append(place.run("memory", {"helper": False, "traced": False})["rss"])
        with_it.append(place.run("memory", {"helper": True, "traced": False})["rss"])
    traced = place.run("memory", {"helper": True, "traced": True})
    added = [b - a for a, b in zip(without, with_it, strict=True)]
    tensors = {side: place.run("step_memory", {"helper": side == "helper"}) for side in ("plain", "helper")}
    return {
        "rss_torch": round(statistics.median(without)),
        "rss_added": {"median": round(statistics.median(added)), "low": min(added), "high": max(added)},
        "heap": traced["heap"],
        "tensors_at_import": traced["tensors"],
        "after_steps": tensors,
    }


def imports(place: Place, rounds: int) -> dict[str, Any]:
    """CPU milliseconds of `import torch`, of the helper's import after it and of its first device(); medians."""
    found: dict[str, Any] = {"modules": []}
    for folder, what in (("cached", "with .pyc"), ("bare", "without .pyc")):
        environment = {**place.environment, "PYTHONDONTWRITEBYTECODE": "1"}
        there = Place(place.kind, place.evidence, environment, place.folder)
        runs = [there.run("imports", {}, folder=folder) for _ in range(max(1, rounds // 4))]
        found["modules"] = runs[0]["modules"]
        found[what] = {step: _spread([run[step]["cpu"] * 1e3 for run in runs]) for step in runs[0] if step != "modules"}
    return found


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 3), "low": round(min(values), 3), "high": round(max(values), 3)}


def graph_breaks(place: Place, rounds: int) -> list[dict[str, Any]]:
    return list(place.run("graph_breaks", {}))


MEASURE: dict[str, Callable[[Place, int], Any]] = {
    part.__name__: part for part in (steps, calls, instructions, memory, imports, graph_breaks)
}

if __name__ == "__main__":
    main()
