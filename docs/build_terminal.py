"""Write assets/terminal.svg, the README's picture: the first commands of a new user on a copy of fixtures/cnn."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
COLUMNS, SHOWN = 100, 14  # lines of `check` that are shown
COMMANDS = ("check", "apply", "undo")


def run(command: str, project: Path) -> list[str]:
    """Return what a command prints, with its colours."""
    code = "import sys; from torchmigrate.cli.app import main; main()"
    words = [sys.executable, "-c", code, command, *(["--color", "always"] if command == "check" else [])]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(COLUMNS), "XDG_STATE_HOME": str(project.parent / "s")}
    done = subprocess.run(words, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = done.stdout.splitlines()
    return [*lines[:SHOWN], "...", *lines[-1:]] if len(lines) > SHOWN + 2 else lines


def main() -> None:
    """Run the commands, and write the picture."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"), force_terminal=True)  # noqa: SIM115
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "cnn"
        shutil.copytree(ROOT / "fixtures" / "cnn", project)
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (f"torchmigrate {command}", "bold")))
            for line in run(command, project):
                console.print(Text.from_ansi(line))
            console.print()
    svg = console.export_svg(title="a project that names CUDA", unique_id="terminal")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)  # no fonts from elsewhere
    (ROOT / "docs" / "assets" / "terminal.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
