"""`-`: bytes in, bytes out; the facts of the file's project; an editor loses nothing, whatever goes wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Ran, git, write_tree

Pipe = Callable[..., Ran]
TEXT = "import torch\n\nx = torch.zeros(3).cuda()\n"
AFTER = "import torch\nimport accel\n\nx = torch.zeros(3, device=accel.device())\n"
APPLY = ("apply", "-", "--stdin-filename", "train.py")
CHECK = ("check", "-", "--stdin-filename", "train.py")
HELPER = "note: accel.py, which this imports, is not written with `-`; "


@pytest.fixture
def pipe(cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Pipe:
    """Run one command line with this standard input."""

    def run(text: str | bytes, *arguments: str) -> Ran:
        raw = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        return cli(*arguments)

    return run


def tree(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_rewritten_text_goes_to_stdout_alone(here: Path, pipe: Pipe) -> None:
    ran = pipe(TEXT, *APPLY)
    assert (ran.status, ran.out) == (0, AFTER)
    assert HELPER + "`torchmigrate apply train.py` writes it, if run before this is saved\n" in ran.err
    assert ran.last == "Rewrote 1 of 1 file: 1 edit by 1 rule."
    assert tree(here) == {}
    assert pipe(AFTER, *APPLY).out == AFTER


def test_findings_go_to_stderr(here: Path, pipe: Pipe) -> None:
    text = "import torch\n\ngraph = torch.cuda.CUDAGraph()\n"
    ran = pipe(text, *APPLY)
    assert (ran.status, ran.out) == (0, text)
    assert "train.py:3:9: " in ran.err
    assert "  3 | graph = torch.cuda.CUDAGraph()\n" in ran.err
    ran = pipe(text, *APPLY, "-o", "report.txt")
    assert ("train.py:3:9: " in ran.err, "train.py:3:9: " in (here / "report.txt").read_text()) == (False, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: ("# -*- coding: latin-1 -*-\n" + text + "# é").encode("latin-1"),
        lambda text: (text + "\x0c# \u2028 no line end").encode(),
    ],
    ids=["CRLF", "BOM", "latin-1", "form feed"],
)
def test_bytes_in_bytes_out(here: Path, pipe: Pipe, change: Callable[[str], bytes]) -> None:
    assert pipe(change(TEXT), *APPLY).raw == change(AFTER)
    plain = change("x = 1\n")
    assert pipe(plain, *APPLY).raw == plain


def test_check_reports_and_shows_what_came_in(here: Path, pipe: Pipe) -> None:
    write_tree(here, {"train.py": "import torch\n\n# what is on disk is something else\n"})
    ran = pipe(TEXT, *CHECK)
    assert ran.status == 1
    assert ran.out.startswith("train.py:3:5: device/tensor-cuda: ")
    assert "  3 | x = torch.zeros(3).cuda()\n" in ran.out
    assert pipe("x = 1\n", *CHECK).status == 0
    assert pipe(TEXT, *CHECK, "--exit-zero").status == 0
    data = json.loads(pipe(TEXT, *CHECK, "--output-format", "json").out)
    assert [f["file"] for f in data["findings"]] == ["train.py"]


def test_a_dry_run_prints_the_diff_of_it(here: Path, pipe: Pipe) -> None:
    write_tree(here, {"train.py": TEXT})
    ran = pipe(TEXT, *APPLY, "--dry-run")
    assert (ran.status, ran.out.count("+++ b/")) == (1, 1)
    git(here, "init", "-q")
    (here.parent / "patch").write_text(ran.out)
    git(here, "apply", str(here.parent / "patch"))
    assert (here / "train.py").read_text() == AFTER
    assert pipe(AFTER, *APPLY, "-n").status == 0


def test_unsafe_fixes_are_held_back(here: Path, pipe: Pipe) -> None:
    text = "import torch\n\n\nclass B:\n    def cuda(self):\n        return self\n"
    text += "\n\ndef f(b):\n    return torch.relu(b.cuda())\n"
    ran = pipe(text, *APPLY)
    assert (ran.status, ran.out) == (1, text)
    ran = pipe(text, *APPLY, "--unsafe-fixes")
    assert (ran.status, "b.to(accel.device())" in ran.out) == (0, True)


# ---- the project around it


def test_the_settings_are_the_projects(here: Path, pipe: Pipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_tree(here, {"pyproject.toml": '[tool.torchmigrate]\nignore = ["device/tensor-cuda"]\n', "sub/x": ""})
    monkeypatch.chdir(tmp_path)
    arguments = ("--stdin-filename", f"{here}/sub/new.py")
    assert pipe(TEXT, "apply", "-", *arguments).out == TEXT
    assert pipe(TEXT, "apply", "-", *arguments, "--isolated").out == AFTER
    write_tree(here, {"pyproject.toml": '[tool.torchmigrate]\nextend-exclude = ["sub"]\n'})
    ran = pipe(TEXT, "apply", "-", *arguments, "-v")
    assert (ran.status, ran.out) == (0, TEXT)
    assert "new.py: excluded by `sub`\n" in ran.err


def test_the_facts_are_the_projects(here: Path, pipe: Pipe) -> None:
    write_tree(here, {"batch.py": "import torch\n\n\nclass Batch:\n    def cuda(self):\n        return self\n"})
    text = "import torch\n\n\ndef step(batch):\n    return torch.relu(batch.cuda())\n"
    ran = pipe(text, *APPLY)
    assert (ran.status, ran.out) == (1, text)
    (here / "batch.py").unlink()
    assert pipe(text, *APPLY).status == 0


def test_where_the_helper_lies_is_read_from_what_came_in(here: Path, pipe: Pipe) -> None:
    """On disk there is no such file yet, and no import of its package."""
    write_tree(here, {"pkg/__init__.py": "", "pkg/model.py": "import torch\n", "pyproject.toml": "[project]\n"})
    text = "import torch\n\nfrom .model import *\n\nx = torch.zeros(3).cuda()\n"
    ran = pipe(text, "apply", "-", "--stdin-filename", "pkg/new.py")
    assert "from . import accel\n" in ran.out
    assert "note: pkg/accel.py, which this imports, is not written" in ran.err
    write_tree(here, {"pkg/new.py": "import torch\n"})
    assert pipe(text, "apply", "-", "--stdin-filename", "pkg/new.py").out == ran.out


def test_it_is_as_apply_writes_the_file(here: Path, pipe: Pipe, cli: Callable[..., Ran]) -> None:
    for name in ("cnn/train.py", "cnn/model.py"):
        (here / Path(name).name).write_bytes((ROOT / "fixtures" / name).read_bytes())
    found = {p.name: pipe(p.read_bytes(), "apply", "-", "--stdin-filename", p.name).raw for p in here.glob("*.py")}
    assert cli("apply").status == 0
    assert found == {name: (here / name).read_bytes() for name in found}
    ran = pipe((ROOT / "fixtures" / "cnn" / "train.py").read_bytes(), *APPLY)
    assert (ran.raw == found["train.py"], "not written" in ran.err) == (True, False)  # the helper is there now


def test_a_notebook(here: Path, pipe: Pipe) -> None:
    def book(source: str) -> str:
        cells = [{"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [], "source": source}]
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"

    ran = pipe(book("%matplotlib inline\n" + TEXT), "apply", "-", "--stdin-filename", "a.ipynb")
    assert (ran.status, ran.out) == (0, book("%matplotlib inline\n" + AFTER))
    ran = pipe(book(TEXT), "check", "-", "--stdin-filename", "a.ipynb")
    assert ran.out.startswith("a.ipynb:cell 1:3:5: device/tensor-cuda: ")
    assert "  3 | x = torch.zeros(3).cuda()\n" in ran.out


def test_a_file_that_is_not_python(here: Path, pipe: Pipe) -> None:
    ran = pipe("torch\nflash-attn\n", "check", "-", "--stdin-filename", "requirements.txt")
    assert (ran.status, ran.out.startswith("requirements.txt:2:1: ")) == (1, True)
    assert "  2 | flash-attn\n" in ran.out
    ran = pipe("torch\nflash-attn\n", "apply", "-", "--stdin-filename", "requirements.txt")
    assert (ran.status, ran.out) == (0, "torch\nflash-attn\n")


def test_a_baseline_knows_it(here: Path, pipe: Pipe, cli: Callable[..., Ran]) -> None:
    write_tree(here, {"train.py": TEXT})
    cli("check", "--baseline", "known.json", "--write-baseline")
    assert pipe("# new\n" + TEXT, *CHECK, "--baseline", "known.json").status == 0
    assert pipe(TEXT + "torch.cuda.synchronize()\n", *CHECK, "--baseline", "known.json").status == 1
    ran = pipe("x = 1\n", *CHECK, "--baseline", "known.json")
    assert (ran.status, "no longer found (train.py: device/tensor-cuda)" in ran.err) == (0, True)


def test_without_a_name_the_project_is_the_current_directory(here: Path, pipe: Pipe) -> None:
    ran = pipe(TEXT, "apply", "-")
    assert (ran.status, ran.out) == (0, AFTER)
    assert pipe(TEXT, "check", "-").out.startswith("stdin.py:3:5: ")


def test_a_directory_that_does_not_exist(here: Path, pipe: Pipe) -> None:
    ran = pipe(TEXT, "apply", "-", "--stdin-filename", "nowhere/at/all.py")
    assert (ran.status, ran.out) == (0, AFTER)


# ---- what goes wrong


@pytest.mark.parametrize(
    "raw", [b"import torch\nprint 'cuda'\n", b"torch.cuda\0\n", b"torch.cuda \xff\n", b"torch.cuda("]
)
def test_what_does_not_parse_comes_back(here: Path, pipe: Pipe, raw: bytes) -> None:
    ran = pipe(raw, *APPLY)
    assert (ran.status, ran.raw) == (2, raw)
    assert "error: train.py: " in ran.err
    ran = pipe(raw, *CHECK)
    assert (ran.status, ran.raw) == (2, b"")
    assert "error: train.py: " in ran.err


@pytest.mark.parametrize("arguments", [["--select", "devise"], ["--config", "nowhere.toml"], ["--torch", "new"]])
def test_so_it_does_where_options_are_wrong(here: Path, pipe: Pipe, arguments: list[str]) -> None:
    ran = pipe(TEXT, *APPLY, *arguments)
    assert (ran.status, ran.out) == (2, TEXT)
    assert ran.err.startswith("error: ")
    assert pipe(TEXT, *CHECK, *arguments).out == ""


def test_and_after_a_bug_of_ours(here: Path, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("torchmigrate.engine.planner.plan", broken)
    ran = pipe(TEXT, *APPLY)
    assert (ran.status, ran.out) == (2, TEXT)
    assert ran.err.startswith("error: internal error: ZeroDivisionError: oh")


def test_skip_file_and_nothing(here: Path, pipe: Pipe) -> None:
    for text in ("# torchmigrate: skip-file\n" + TEXT, "", "\n"):
        ran = pipe(text, *APPLY)
        assert (ran.status, ran.out) == (0, text)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["apply", "-", "a.py"], "error: `-` stands alone: standard input is one file"),
        (["check", "-", "--staged"], "error: --staged asks git for files, and `-` is none"),
        (["check", "-", "--since", "HEAD"], "error: --since asks git for files, and `-` is none"),
        (["check", "-", "--baseline", "x", "--write-baseline"], "error: --write-baseline writes what files hold"),
        (["check", ".", "--stdin-filename", "a.py"], "error: --stdin-filename is of no use without `-`"),
    ],
)
def test_what_does_not_go_together(here: Path, pipe: Pipe, arguments: list[str], error: str) -> None:
    ran = pipe(TEXT, *arguments)
    assert (ran.status, ran.err.splitlines()[0].startswith(error)) == (2, True), ran.err
    assert "\nhelp: " in ran.err


@pytest.mark.slow
def test_a_real_pipe(here: Path) -> None:
    raw = ("# é\r\n" + TEXT.replace("\n", "\r\n")).encode()
    command = [sys.executable, "-m", "torchmigrate", *APPLY]
    done = subprocess.run(command, input=raw, capture_output=True, cwd=here, env={"PYTHONPATH": str(ROOT)}, check=True)
    assert done.stdout == ("# é\r\n" + AFTER.replace("\n", "\r\n")).encode()
