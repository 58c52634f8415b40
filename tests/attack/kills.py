"""End `apply` and `undo` with SIGKILL at random times, and count the files that do not come back:

    python -m tests.attack.kills --runs 100 --files 200

Half of the times fall anywhere in a run, half between the first file that it writes and its end. A run of the first
half that ends before its time is started anew, with shorter times, so that each is killed, however fast the machine
has become. Of what is left then, half is undone, and half applied again, compared with a run that nobody ended, and
undone step by step.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
Texts = Mapping[str, bytes]


@dataclass
class Count:
    """What came of some kills."""

    applies: int = 0  # that were killed before they had ended
    undos: int = 0
    between: int = 0  # applies killed when some files were new and others old
    again: int = 0  # applies that were done once more
    half: int = 0  # files that were neither old nor new
    unfinished: int = 0  # files that another apply did not make new
    lost: int = 0  # files that undo did not give back
    left: int = 0  # files that were there afterwards and not before


@dataclass(frozen=True)
class Project:
    """A project with a program in each file, and a state folder of its own."""

    root: Path
    state: Path

    def make(self, files: int) -> Texts:
        self.root.mkdir()
        for number in range(files):
            path = self.root / f"p{number % 7}" / f"m{number}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"import torch\n\nx{number} = torch.zeros({number + 1}).cuda()\n" * (1 + number % 5))
        return self.texts()

    def texts(self) -> Texts:
        names = (path for path in self.root.rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in names}

    def start(self, command: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "torchmigrate", command, *(["-q"] if command == "apply" else []), "."]
        own = {"XDG_STATE_HOME": str(self.state), "XDG_CACHE_HOME": str(self.state / "cache"), "PYTHONPATH": str(ROOT)}
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            words, cwd=self.root, env=os.environ | own, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def run(self, command: str) -> int:
        return self.start(command).wait()


def _wait(until: Callable[[], bool], most: float) -> float:
    """Wait until something is so, for at most some seconds; return how long it took."""
    begun = time.monotonic()
    while time.monotonic() - begun < most and not until():
        time.sleep(0.0005)
    return time.monotonic() - begun


def campaign(directory: Path, runs: int, files: int, seed: int = 0) -> Count:
    """Kill that many applies, and for each fourth an `undo` too."""
    draw = random.Random(seed)
    project = Project(directory / "project", directory / "state")
    old = project.make(files)
    probe = project.root / "p0" / "m0.py"

    def is_written() -> bool:
        return probe.read_bytes() != old["p0/m0.py"]

    begun = time.monotonic()
    process = project.start("apply")
    first = _wait(is_written, 600)
    assert process.wait() == 0
    whole = time.monotonic() - begun
    new = project.texts()
    assert project.run("undo") == 0 and project.texts() == old
    count = Count()
    for number in range(runs):
        process = project.start("apply")
        if number % 2:
            _wait(lambda process=process: is_written() or process.poll() is not None, 600)  # type: ignore[misc]
            time.sleep(draw.uniform(0, max(0.001, whole - first)))
            count.applies += _was_ended(process)
        else:
            time.sleep(draw.uniform(0, whole))
            while not _was_ended(process):  # faster than the first one: the machine has less to do now
                whole /= 2
                project.run("undo")
                process = project.start("apply")
                time.sleep(draw.uniform(0, whole))
            count.applies += 1
        _look(project, old, new, count)
        if number % 4 > 1:
            project.run("apply")
            count.again += 1
            count.unfinished += _other(project.texts(), new)
        if number % 4 == 3:
            process = project.start("undo")
            time.sleep(draw.uniform(0, whole / 2))
            count.undos += _was_ended(process)
            count.half += _half(project.texts(), old, new)
        for _ in range(2):  # an apply that was ended, and the one after it
            if project.texts() != old:
                project.run("undo")
        found = project.texts()
        count.lost += _other(found, old)
        count.left += sum(name not in old and ".torchmigrate-" not in name for name in found)
    return count


def _was_ended(process: subprocess.Popen[bytes]) -> bool:
    """End a run and all that it started; return whether it still ran."""
    runs = process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return runs


def _look(project: Project, old: Texts, new: Texts, count: Count) -> None:
    found = project.texts()
    count.half += _half(found, old, new)
    count.between += 0 < sum(found.get(name) == new[name] for name in old) < len(old)


def _half(found: Texts, old: Texts, new: Texts) -> int:
    return sum(found.get(name) not in (raw, new[name]) for name, raw in old.items())


def _other(found: Texts, wanted: Texts) -> int:
    return sum(found.get(name) != raw for name, raw in wanted.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        count = campaign(Path(directory), arguments.runs, arguments.files, arguments.seed)
    print(count)
    return 1 if count.lost or count.half or count.left or count.unfinished else 0


if __name__ == "__main__":
    sys.exit(main())
