"""What `apply` does to known projects: a row for each in a table of Markdown, as README.md has it.

    python benchmarks/projects.py FOLDER                        # a folder of checkouts
    python benchmarks/projects.py repos.txt --output table.md   # a list as `torchmigrate fleet` takes it

Each is cloned to a temporary folder and rewritten there; nothing of it is run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from checkouts import checkouts
from commands import ROOT

HEAD = "| project | places | rewritten | unsafe | need you |\n|---|---|---|---|---|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a folder of checkouts, or a list")
    parser.add_argument("--output", type=Path, help="write the table there, not to stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tops = checkouts(options.source.resolve(), Path(folder))
        table = "\n".join([HEAD, *(row(top) for top in sorted(tops, key=lambda top: top.name.lower()))]) + "\n"
    if options.output:
        options.output.write_text(table, encoding="utf-8")
    else:
        print(table, end="")


def row(top: Path) -> str:
    """Rewrite a checkout, and count what was done and what is left."""
    commit = git(top, "rev-parse", "--short=7", "HEAD").strip()
    words = [sys.executable, "-m", "torchmigrate", "apply", "--quiet", "--exit-zero", "--output-format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(top.parent / ".state")}
    done = subprocess.run(words, cwd=top, env=environment, capture_output=True, text=True, check=False)
    told: dict[str, Any] = json.loads(done.stdout)
    findings = [found for found in told["findings"] if found["status"] != "left"]
    kinds = Counter(kind(found) for found in findings)
    counts = f"{len(findings)} | {kinds['rewritten']} | {kinds['unsafe']} | {kinds['yours']}"
    return f"| {top.name} ({commit}) | {counts} |"


def kind(found: dict[str, Any]) -> str:
    if found["applied"]:
        return "rewritten"
    return "unsafe" if found["fix"] else "yours"


def git(top: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", top, *words], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
