"""Before a commit (`check --staged`, or under pre-commit): code that imports the helper does not go in without it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, git, write_tree

from torchmigrate.project.helper_file import runtime_source

Cli = Callable[..., Ran]
USES = "import torch\nimport accel\n\nx = torch.zeros(3, device=accel.device())\n"
LOST = "error: train.py imports accel.py, which the commit would be without\nhelp: git add accel.py\n"


@pytest.fixture
def project(here: Path) -> Path:
    """One staged file that imports a helper which git does not know."""
    write_tree(here, {"train.py": USES, "accel.py": runtime_source()})
    git(here, "init", "-q")
    git(here, "add", "train.py")
    return here


def test_staged(project: Path, cli: Cli) -> None:
    ran = cli("check", "--staged")
    assert ran.status == 2 and ran.err.endswith(LOST)
    assert cli("apply", "--staged").status == 0  # no gate: whoever runs it adds what it wrote
    git(project, "add", "accel.py")
    assert cli("check", "--staged").status == 0


@pytest.mark.parametrize("command", ["check", "apply"])
def test_under_pre_commit(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert cli(command, "train.py").status == 0  # by hand: nobody commits
    monkeypatch.setenv("PRE_COMMIT", "1")
    assert cli(command, "train.py").status == 2
    assert cli(command, "--dry-run", "train.py").status == (0 if command == "apply" else 2)  # check has no such option
    write_tree(project, {"clean.py": "import torch\n"})
    assert cli(command, "clean.py").status == 0


def test_a_helper_that_this_run_writes(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRE_COMMIT", "1")
    (project / "accel.py").unlink()
    (project / "train.py").write_text("import torch\n\nx = torch.zeros(3).cuda()\n")
    git(project, "add", "train.py")
    ran = cli("apply", "train.py")
    assert ran.status == 2 and "Rewrote 1 of 1 file and added accel.py" in ran.err and ran.err.endswith(LOST)


@pytest.mark.parametrize(
    ("where", "file", "text", "name"),
    [
        ("pkg", "pkg/sub/a.py", "from .. import accel\n", "pkg/accel.py"),
        ("pkg", "pkg/sub/a.py", "from pkg import x, accel as acc\n", "pkg/accel.py"),
        (".", "a b.py", "if True:\n    import os, accel\n", "accel.py"),
        (".", "nb.ipynb", '{"cells": [{"source": ["import accel\\n"]}]}', "accel.py"),
        ("a dir", "a dir/b.py", "import torch_accel\n", "a dir/torch_accel.py"),
    ],
)
def test_how_it_is_imported(here: Path, cli: Cli, where: str, file: str, text: str, name: str) -> None:
    write_tree(here, {file: text, name: runtime_source()})
    git(here, "init", "-q")
    git(here, "add", file)
    ran = cli("check", "--staged")
    quoted = f"'{name}'" if " " in name else name
    assert f"error: {file} imports {name}, which" in ran.err and ran.err.endswith(f"help: git add {quoted}\n")


@pytest.mark.parametrize(
    "files",
    [
        {"accel.py": "# a module of theirs\n"},
        {".gitignore": "accel.py\n"},
        {"train.py": "import torch  # no import of accel's\nx = accelerate\n"},
        {"train.py": "import torch.accelerator\nimport accelerate\nfrom fast_accel import x\n"},
    ],
    ids=["not ours", "ignored", "a word", "other modules"],
)
def test_what_is_no_lost_helper(project: Path, cli: Cli, files: dict[str, str]) -> None:
    write_tree(project, files)
    git(project, "add", "train.py")
    assert cli("check", "--staged").status == 0


def test_outside_of_git(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(here, {"train.py": USES, "accel.py": runtime_source()})
    monkeypatch.setenv("PRE_COMMIT", "1")
    assert cli("check", "train.py").status == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files here")
def test_a_file_that_cannot_be_read(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRE_COMMIT", "1")
    os.mkfifo(project / "pipe.py")
    assert cli("check", "pipe.py", "missing.py").status == 2


@pytest.mark.skipif(os.name == "nt", reason="names that Windows cannot have")
def test_a_file_that_is_called_like_an_option(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook gets the names of a pull request's files as they are: none of them is an option."""
    cuda = "import torch\n\nx = torch.zeros(3).cuda()\n"
    home = here.parent / "home"
    home.mkdir()
    names = [f"-o{home}/.bashrc.py", "--output=out.py", "--unsafe-fixes", "--config=c.py", "-", "--write-baseline"]
    write_tree(here, {**dict.fromkeys(names, cuda), "a.py": cuda})
    files = [*(name for name in names if name.endswith(".py")), "a.py"]
    cli("check", files[0])
    (home / ".bashrc.py").unlink()  # the control: by hand it is an option
    monkeypatch.setenv("PRE_COMMIT", "1")
    ran = cli("check", "--output-format", "concise", *files)
    found = {line.partition(":")[0] for line in ran.out.splitlines()}
    assert (ran.status, found) == (1, {*files}), ran.err
    assert cli("apply", "--dry-run", "--unsafe-fixes", *files).status == 1
    assert cli("apply", *files).status == 0
    assert all("accel" in (here / name).read_text() for name in files)
    assert not list(home.iterdir()) and not (here / "out.py").exists()


def test_a_helper_that_git_ignores_is_named(here: Path, cli: Cli) -> None:
    text = "import torch\ndef f(x):\n    return x.cuda()\n"
    write_tree(here, {".gitignore": "old\n", "old/train.py": text, "train.py": text})
    git(here, "init", "-q")
    git(here, "add", "-f", ".")
    ran = cli("apply", "--allow-dirty", ".", "old")
    told = [line for line in ran.err.splitlines() if "ignores" in line]
    assert told == ["note: git ignores old/accel.py, so that a clone would lack it: `git add -f old/accel.py`"]
