"""The commands on the pages of docs/ do what the pages say: each page is run from its top in a scratch project."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran, git
from doc_pages import OUTPUT, Block, blocks, missing

from torchmigrate.rules import packs
from torchmigrate.surveys import api_catalog

DOCS = ROOT / "docs"
GENERATED = {"rules.md", "catalog.md", *(f"catalog/{p.name}" for p in (DOCS / "catalog").glob("*.md"))}
PAGES = {p.relative_to(DOCS).as_posix(): p for p in sorted(DOCS.rglob("*.md"))}
WRITTEN = {
    name: page for name, page in PAGES.items() if name not in (*GENERATED, "fleet.md")
}  # fleet/test_fleet.py runs that
Cli = Callable[..., Ran]

# Why a block is not run: no other reason will do.
REASONS = {
    "asks questions",
    "asks the machine",
    "fetches hooks",
    "installs",
    "needs a cluster",
    "runs minutes",
    "the guide runs it",
    "the tests do it",
}


def remembered(read: Callable[..., Any]) -> Callable[..., Any]:
    """Our own rules and rows are read once for all pages; others each time."""
    kept: dict[tuple[Path, bool], Any] = {}

    def reader(path: Path, option: Any = True) -> Any:
        key = (path, option is True)
        if not path.is_relative_to(packs.builtin()):
            return read(path, option)
        if key not in kept:
            kept[key] = read(path, option)
        return kept[key]

    return reader


RULE, ROWS = remembered(packs.load_rule), remembered(api_catalog.read)


def steps(page: Path) -> Iterator[tuple[Block, list[Block]]]:
    """Each block of commands with the output shown for it; files and marks come as they stand."""
    found = list(blocks(page))
    for at, block in enumerate(found):
        shown = []
        if block.language == "sh":
            for after in found[at + 1 :]:
                if after.language in ("sh", "heading") or after.title:
                    break
                shown += [after] if after.language in OUTPUT else []
        yield block, shown


def start(where: Path, source: str) -> None:
    """A git repository with a copy of the project, or with nothing."""
    if source == "empty":
        where.mkdir(parents=True)
    else:
        shutil.copytree(ROOT / source, where, ignore=shutil.ignore_patterns("__pycache__"))
    git(where, "init", "-q", "-b", "main")
    git(where, "add", "-A")
    git(where, "commit", "-q", "--allow-empty", "-m", "Start")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Callable[[Block], tuple[list[int], str]]:
    """Run a block of commands: those of torchmigrate alone in this process, others by bash."""
    monkeypatch.setattr(packs, "load_rule", RULE)
    monkeypatch.setattr(api_catalog, "read", ROWS)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, arguments in {"torchmigrate": "-m torchmigrate", "python": ""}.items():
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
    for name, value in {"OMP_NUM_THREADS": "1", "TORCH_ACCEL_DEVICE": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}.items():
        monkeypatch.setenv(name, value)

    def run(block: Block) -> tuple[list[int], str]:
        words = [shlex.split(line, comments=True) for line in block.commands]
        if all(re.fullmatch(r"torchmigrate [^<>|;&$*]*", line.partition(" # ")[0]) for line in block.commands):
            ran = [cli(*arguments) for _, *arguments in words]
            return [r.status for r in ran], "".join(r.out + r.err for r in ran)
        ran = [subprocess.run(["bash", "-c", line], capture_output=True, text=True) for line in block.commands]
        return [r.returncode for r in ran], "".join(r.stdout + r.stderr for r in ran)

    return run


@pytest.mark.parametrize("name", [n for n, page in WRITTEN.items() if any(b.language == "sh" for b in blocks(page))])
def test_a_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Callable) -> None:
    number = 0
    for block, shown in steps(WRITTEN[name]):
        if block.language == "heading":
            continue
        here = f"docs/{name}, line {block.line}"
        if source := block.marks.get("project", "" if number else "fixtures/ff"):
            number += 1
            start(tmp_path / str(number) / "project", source)
            monkeypatch.chdir(tmp_path / str(number) / "project")
        if "not run" in block.marks or (block.marks.get("with") == "a CPU build" and not cpu_build()):
            continue
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            statuses, said = shell(block)
            assert statuses == block.statuses, f"{here}: exit statuses\n{said}"
            for part in shown:
                assert not missing(part.text, said), f"docs/{name}, line {part.line} is not in:\n{said}"


@pytest.mark.parametrize("name", [n for n, p in WRITTEN.items() if any("from" in b.marks for b in blocks(p))])
def test_excerpts_are_parts_of_their_files(name: str) -> None:
    for block in blocks(WRITTEN[name]):
        if source := block.marks.get("from"):
            there = (ROOT / source).read_text(encoding="utf-8")
            assert block.text in there, f"docs/{name}, line {block.line}: not in {source}"


def cpu_build() -> bool:
    """Read, as importing torch takes a second."""
    found = util.find_spec("torch")
    text = Path(found.origin or "").with_name("version.py").read_text(encoding="utf-8") if found else ""
    return len(re.findall(r"^(?:cuda|hip)\b.*= None$", text, re.M)) == 2


def test_what_is_not_run_is_counted() -> None:
    commands = [b for page in WRITTEN.values() for b in blocks(page) if b.language == "sh" and not b.title]
    skipped = Counter(b.marks["not run"] for b in commands if "not run" in b.marks)
    print(f"{len(commands)} blocks of commands; not run: {dict(skipped)}")
    assert skipped.keys() == REASONS
    assert skipped.total() * 3 < len(commands)


def test_blocks_that_nothing_reads() -> None:
    """A shell block of another name would not be run, nor would one that is indented."""
    for name, page in WRITTEN.items():
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"^```(bash|shell|zsh|console)\b", text, re.M) or name == "helper.md", name
        assert not re.findall(r"^ +```sh", text, re.M), name


@pytest.mark.parametrize(
    ("shown", "said", "lacks"),
    [
        ("a\nb\n", "x\na\nb\ny\n", ""),
        ("a\n...\nc\n", "a\nb\nc\n", ""),
        ("a\nc\n", "a\nb\nc\n", "a\nc\n"),
        ("c\n...\na\n", "a\nb\nc\n", "a\n"),
        ("a\n...\na\n", "a\n", "a\n"),
        ("one...\nb\n", "a\none two\nb\n", ""),
        ("one...\nc\n", "one two\nb\n", "one...\nc\n"),
    ],
)
def test_what_is_shown_is_compared(shown: str, said: str, lacks: str) -> None:
    assert missing(shown, said) == lacks
