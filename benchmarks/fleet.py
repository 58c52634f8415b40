"""`torchmigrate fleet` on this machine, and on a dask cluster whose workers are killed: each result once, and the same
bytes? And what a file costs with one repository, ten, and a hundred.

    python benchmarks/fleet.py FOLDER              # a folder of checkouts; a plain folder in it becomes one
    python benchmarks/fleet.py repos.txt           # a list as `torchmigrate fleet` takes it
    python benchmarks/fleet.py FOLDER --workers 4 --kill 2 --rounds 5

`pip install torchmigrate[fleet]` brings all that it takes. The status is 1 if anything but seconds differs.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from checkouts import checkouts, git
from dask_cluster import cluster, waited

SMALL = 10  # repositories, and ten copies of each
HEADS = ("run", "repositories", "files", "CPU s", "CPU ms per file", "killed workers", "results", "identical bytes")
GROWN = ("repositories", "files", "CPU s", "CPU ms per file", "CPU ms per further file")
TIMED = re.compile(r"summary\.json$|^report\.")
SECONDS = re.compile(rb'(?<="seconds": )[\d.]+|[\d,]+\.\d(?=(\*\*)? \||</t[dh]>)')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=lambda text: Path(text).resolve(), help="a folder of checkouts, or a list")
    parser.add_argument("--workers", type=int, default=2, help="of them, `--kill` are killed")
    parser.add_argument("--kill", type=int, default=1)
    parser.add_argument("-n", "--rounds", type=int, default=3, help="of the runs with 1, 10 and 100 repositories")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        tops = checkouts(options.source, scratch / "checkouts")
        same = compared(tops, scratch, options.workers, options.kill)
        grown(tops, scratch, options.rounds)
    return 0 if same else 1


def fleet(tops: Sequence[Path], out: Path, *words: str, each: Callable[[int], None] = lambda done: None) -> list[str]:
    """Run it; the names in the order in which it told of them, and `each` with how many these are by then."""
    listed, names = out.with_suffix(".txt"), list[str]()
    listed.write_text("".join(f'"{top}"\n' for top in tops))
    command = [sys.executable, "-m", "torchmigrate", "fleet", str(listed), "--output", str(out), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            if found := re.match(r"\d+/\d+ (\S+): ", line):
                names.append(found[1])
                each(len(names))
    return names


def files(out: Path) -> int:
    return int(json.loads((out / "report.json").read_bytes())["totals"]["files"])


def timeless(out: Path) -> dict[str, bytes]:
    """Every file of a run, without the seconds that it took."""
    found = {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    return {name: SECONDS.sub(b"", data) if TIMED.search(name) else data for name, data in found.items()}


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def compared(tops: Sequence[Path], scratch: Path, workers: int, kill: int) -> bool:
    """Both runs, each with its row; whether they gave the same, each result once."""
    here, there, killed, before = scratch / "local", scratch / "dask", list[int](), waited()
    row(*HEADS)
    row(*["---"] * len(HEADS))
    told = fleet(tops, here, f"-j{workers}")
    cpu, count = waited() - before, files(here)
    row("local", len(tops), count, f"{cpu:.1f}", f"{1000 * cpu / count:.1f}", 0, len(told), "")
    with cluster(workers, scratch) as running:

        def each(done: int) -> None:
            if len(killed) < kill and done >= len(tops) * (len(killed) + 1) // (kill + 2):
                killed.append(done)
                running.kill()

        before = waited()
        told = fleet(tops, there, "--executor", running.address.replace("tcp", "dask"), each=each)
    cpu, ours, theirs = waited() - before + running.cpu, timeless(here), timeless(there)
    equal = {name: data for name, data in ours.items() if theirs.get(name) == data}
    same = f"{sum(map(len, equal.values())):,} of {sum(map(len, ours.values())):,} in {len(ours)} files"
    lost = f"{len(killed)}, after result {', '.join(map(str, killed))}"
    row("dask", len(tops), files(there), f"{cpu:.1f}", f"{1000 * cpu / count:.1f}", lost, len(told), same)
    print(*(f"differs: {name}\n" for name in sorted((ours.keys() | theirs.keys()) - equal.keys())), sep="")
    return equal == ours == theirs and sorted(told) == [top.name for top in tops] and len(killed) == kill


def grown(tops: Sequence[Path], scratch: Path, rounds: int) -> None:
    """The same files in runs of one repository each, of ten, and of a hundred: copies of the smallest. What starts once
    is in the cost of a file, and not in that of a further one."""
    small = sorted(tops, key=lambda top: len(list(top.rglob("*.py"))))[:SMALL]
    copies = [scratch / "copies" / f"{top.name}-{n}" for n in range(SMALL) for top in small]
    for n, copy in enumerate(copies):
        git("clone", "-q", small[n % len(small)], copy)
    groups = [[[copy] for copy in copies[: len(small)]], [copies[: len(small)]], [copies]]
    taken = [[cost(group, scratch / "grown") for group in groups] for _ in range(rounds)]
    row(*GROWN)
    row(*["---"] * len(GROWN))
    for n, group in enumerate(groups):
        count = taken[0][n][0]
        of_each = spread([1000 * round[n][1] / count for round in taken])
        more = [1000 * (round[n][1] - round[n - 1][1]) / (count - round[n - 1][0]) for round in taken] if n else []
        row(len(group[0]), f"{count:g}", spread([round[n][1] for round in taken]), of_each, spread(more))


def cost(groups: Sequence[Sequence[Path]], out: Path) -> tuple[float, float]:
    """Files and CPU seconds of a run, on average."""
    count, before = 0, waited()
    for group in groups:
        fleet(group, out, "-j1", "--force")
        count += files(out)
    return count / len(groups), (waited() - before) / len(groups)


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})" if values else ""


if __name__ == "__main__":
    sys.exit(main())
