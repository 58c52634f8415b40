"""`apply -i`, asked through a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, Ran, git, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine import divide, planner
from torchmigrate.rules import packs

TEXT = """\
import torch

model = torch.nn.Linear(2, 2).cuda()
torch.cuda.empty_cache()
other = model.cuda()
if torch.cuda.is_available():
    other = other.cuda()
    torch.cuda.synchronize()
"""
WAIT = 600.0  # seconds for one question: only a program that never asks takes so long


@dataclass(frozen=True)
class Talk:
    """What was on the terminal, and how the program ended."""

    status: int
    shown: str

    @property
    def questions(self) -> list[str]:
        return re.findall(r"\(\d+/\d+\) Rewrite this", self.shown)


def talk(here: Path, answers: Sequence[str], *options: str) -> Talk:
    """Run `apply -i` on a terminal of its own, one answer for each question."""
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background is started with it ignored
        os.chdir(here)
        os.environ |= {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"}
        os.execv(sys.executable, [sys.executable, "-m", "torchmigrate", "apply", "-i", *options])
    shown, left = b"", list(answers)
    while (piece := _read(terminal)) is not None:
        shown += piece
        if left and shown.endswith(b"]? "):
            _wait_until_it_reads(child)
            os.write(terminal, left.pop(0).encode())
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert not left, (left, shown.decode())
    return Talk(os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n"))


def _wait_until_it_reads(child: int) -> None:
    """Wait until a program that has asked sleeps: Python heeds a Ctrl-C just before it reads at the next key only."""
    process = Path(f"/proc/{child}/stat")
    started = time.monotonic()
    while process.exists() and time.monotonic() - started < WAIT:
        if process.read_text().rpartition(")")[2].split()[0] in "SZ":
            return
        time.sleep(0.001)


def _read(terminal: int) -> bytes | None:
    """None at the end. Fails the test where nothing comes: it would wait for ever."""
    started = time.monotonic()
    while time.monotonic() - started < WAIT:
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                return os.read(terminal, 4096) or None
            except OSError:  # Linux: the other side has closed
                return None
    pytest.fail("the program waits for an answer that nobody gives")


@pytest.fixture
def project(here: Path) -> Path:
    write_tree(here, {"train.py": TEXT})
    return here


def rewritten(project: Path) -> str:
    return (project / "train.py").read_text()


def test_yes_to_all_is_what_apply_does(project: Path, cli: Callable[..., Ran]) -> None:
    done = talk(project, ["y\n"] * 4)
    assert done.status == 0, done.shown
    asked = rewritten(project)
    write_tree(project, {"train.py": TEXT})
    assert cli("apply").status == 0
    assert rewritten(project) == asked and "import accel\n" in asked


def test_each_question_shows_the_hunk_and_the_reason(project: Path) -> None:
    done = talk(project, ["n\n"] * 4)
    assert done.status == 1  # fixes are left
    assert len(done.questions) == 4 and "(1/4) Rewrite this [y,n,a,q,?]? " in done.shown
    assert "-torch.cuda.empty_cache()\n+accel.empty_cache()\n other = model.cuda()\n" in done.shown
    assert "device/tensor-cuda: `x.cuda()` raises" in done.shown
    assert "fixes available (torchmigrate apply)" in done.shown and "unsafe" not in done.shown
    assert rewritten(project) == TEXT and os.listdir(project) == ["train.py"]


def test_only_what_had_a_yes_and_the_imports_it_needs(project: Path) -> None:
    done = talk(project, ["n\n", "y\n", "n\n", "n\n"])
    assert done.status == 1
    expected = TEXT.replace("import torch\n", "import torch\n\nimport accel\n", 1)
    after = rewritten(project)
    assert after.replace("\n\nimport accel", "\nimport accel") == expected.replace(
        "\n\nimport accel", "\nimport accel"
    ).replace("torch.cuda.empty_cache()", "accel.empty_cache()")
    assert (project / "accel.py").exists()


def test_a_guarded_region_is_one_question(project: Path) -> None:
    done = talk(project, ["n\n", "n\n", "n\n", "y\n"])
    after = rewritten(project)
    assert "if accel.is_available():\n    other = other.to(accel.device())\n    accel.synchronize()\n" in after
    assert after.count("torch.cuda.empty_cache()") == 1 and after.count(".cuda()") == 2
    last = done.shown[done.shown.index("-if torch.cuda.is_available()") :]
    assert "device/is-available: " in last and "stream/synchronize: " in last


def test_an_idiom_that_holds_other_findings_is_one_question(here: Path) -> None:
    chosen = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    write_tree(here, {"train.py": f"import torch\n\ndevice = {chosen}\nmodel = torch.nn.Linear(2, 2).cuda()\n"})
    done = talk(here, ["y\n", "n\n"])
    assert len(done.questions) == 2
    after = rewritten(here)
    assert "device = accel.device()\n" in after and after.endswith("model = torch.nn.Linear(2, 2).cuda()\n")


def test_all_the_rest_of_a_rule(project: Path) -> None:
    done = talk(project, ["a\n", "n\n", "n\n"])  # the model; empty_cache; the region, which takes other rules too
    assert len(done.questions) == 3, done.shown
    after = rewritten(project)
    assert "other = model.to(accel.device())" in after and "torch.cuda.empty_cache()" in after
    assert "if torch.cuda.is_available():\n    other = other.cuda()\n" in after


def test_q_writes_what_had_a_yes(project: Path) -> None:
    done = talk(project, ["y\n", "q\n"])
    assert done.status == 1
    after = rewritten(project)
    assert (
        "Linear(2, 2).to(accel.device())" in after and "torch.cuda.empty_cache()" in after and "import accel" in after
    )


def test_help_and_what_is_no_answer_ask_again(project: Path) -> None:
    done = talk(project, ["?\n", "what\n", "\n", "q\n"])
    assert done.shown.count("Ctrl-C ends without writing anything.") == 3
    assert "a  yes, and all the rest of device/tensor-cuda" in done.shown
    assert rewritten(project) == TEXT


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_leaving_writes_nothing(project: Path, key: str) -> None:
    done = talk(project, ["y\n", "y\n", key])
    assert done.status == 130 and "nothing was written" in done.shown
    assert rewritten(project) == TEXT and os.listdir(project) == ["train.py"]


def test_without_a_terminal(project: Path, cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    ran = cli("apply", "-i")
    assert ran.status == 2 and "error: --interactive needs a terminal to ask on" in ran.err
    assert cli("apply", "-i", "-n").status == 2
    assert rewritten(project) == TEXT


def test_a_dirty_file_is_refused_before_the_first_question(project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "base")
    (project / "train.py").write_text(TEXT + "# mine\n")
    done = talk(project, [])
    assert done.status == 2 and "has changes git could not restore" in done.shown and not done.questions


def test_commits_hold_what_had_a_yes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "t")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@example.org")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "base")
    done = talk(project, ["n\n", "y\n", "n\n", "n\n"], "--commit")
    assert done.status == 1, done.shown
    assert git(project, "log", "--format=%s").count("\n") == 3  # base, the helper, memory
    assert git(project, "status", "--porcelain") == ""
    diff = git(project, "show", "-U0", "--format=", "HEAD", "--", "train.py")
    assert "+accel.empty_cache()" in diff and ".to(" not in diff


def test_a_notebook_is_asked_about_too(here: Path) -> None:
    cell = '{"cells": [{"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": ['
    cell += '"import torch\\n", "x = torch.zeros(2).cuda()\\n", "torch.cuda.empty_cache()"]}], '
    cell += '"metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n'
    write_tree(here, {"a.ipynb": cell})
    assert talk(here, ["n\n", "y\n"]).status == 1
    after = (here / "a.ipynb").read_text()
    assert "accel.empty_cache()" in after and "zeros(2).cuda()" in after and "import accel" in after


def test_all_groups_together_are_the_plan() -> None:
    """On a whole fixture: every question answered with yes gives what `apply` gives."""
    root = ROOT / "fixtures" / "cnn"
    plan = planner.plan([root], Settings(root=root), 1, "apply")
    assert plan.facts
    asked = divide.Choices(plan.facts, packs.load(cases=False))
    changes = [r for r in plan.results if isinstance(r, Changed) and r.applied]
    keys = {c.path: frozenset().union(*(g.keys for g in asked.groups(c))) for c in changes}
    again = {r.path: r.after for r in asked.results(plan.results, divide.answered(keys)) if isinstance(r, Changed)}
    assert again == {r.path: r.after for r in plan.results if isinstance(r, Changed)} and len(changes) > 1
