"""`--verify`: the repository's own command, before and after, through `torchmigrate verify`. Runs its code."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.errors import UserError
from torchmigrate.fleet.process import start_line
from torchmigrate.fleet.task import Task

_WORDS = {0: "same", 1: "differs", 2: "could not be verified"}


@dataclass(frozen=True, slots=True)
class Verified:
    """`told` in words; `report` is what verify wrote, as JSON."""

    told: str
    report: bytes


def verify(task: Task, root: Path) -> Verified:
    """Raises UserError where verify itself could not be started."""
    command = [*start_line("torchmigrate.cli"), "verify", os.fspath(root), "--quiet", "--output-format", "json"]
    if task.flags.get("unsafe_fixes"):
        command.append("--unsafe-fixes")
    try:
        ran = subprocess.run([*command, "--", *task.verify], capture_output=True, stdin=subprocess.DEVNULL, cwd=root)
    except OSError as error:
        raise UserError(f"verify could not be started: {error}") from None
    said = ran.stderr.decode(errors="replace").strip().splitlines()
    told = _WORDS.get(ran.returncode, f"ended with {ran.returncode}")
    if ran.returncode not in (0, 1) and said:
        told += f": {said[0].removeprefix('error: ')}"
    return Verified(told, ran.stdout)
