from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base.text import visible_lines

if TYPE_CHECKING:
    from torchmigrate.cli.parameters import Format


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for, beside the settings."""

    command: str  # check | apply | dry-run
    paths: tuple[Path, ...]
    output_format: Format
    output: Path | None
    jobs: int
    quiet: bool
    verbose: bool
    exit_zero: bool
    statistics: bool
    allow_dirty: bool = False
    since: str | None = None
    staged: bool = False
    baseline: Path | None = None
    write_baseline: bool = False
    stdin_filename: Path | None = None
    commit: bool = False
    branch: str | None = None
    interactive: bool = False
    also: Sequence[str] | None = None

    def say(self, *lines: str) -> None:
        """To stderr, unless `-q`."""
        if lines and not self.quiet:
            print(*map(visible_lines, lines), sep="\n", file=sys.stderr)
