"""Public projects to measure on: clones of what a folder or a list names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from torchmigrate.fleet import repositories

ME = ("-c", "user.name=torchmigrate", "-c", "user.email=torchmigrate@localhost", "-c", "commit.gpgSign=false")


def checkouts(source: Path, to: Path) -> list[Path]:
    """One for each folder in `source`, or line of it. A plain folder becomes a repository of one commit."""
    folders = [] if source.is_file() else [path for path in source.glob("[!.]*") if path.is_dir()]
    text = "".join(f'"{path}"\n' for path in folders) or source.read_text()
    for found in repositories.read(source if source.is_file() else source / "list", text)[0]:
        top = to / found.name
        if found.is_url or (Path(found.location) / ".git").exists():
            git("clone", "-q", found.location, top)
            git("-C", top, "checkout", "-q", "--detach", found.rev or "HEAD")
        else:
            shutil.copytree(found.location, top, symlinks=True)
            for words in ("init -q", "add -Af", "commit -qm first"):
                git("-C", top, *words.split())
    return sorted(to.iterdir())


def git(*words: str | Path) -> None:
    subprocess.run(["git", *ME, *words], check=True)
