"""`torchmigrate verify` from end to end: with programs that stand in for torch's, then with torch itself."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT, Ran, git, write_tree

from torchmigrate import __version__
from torchmigrate.verify import backends, interpreter, run, sandbox
from torchmigrate.verify.backends import Compiler
from torchmigrate.verify.interpreter import Command, Device, Interpreter

Cli = Callable[..., Ran]

# What a program that uses torch has: kernels on a device, here told by hand. `x.cuda()` is there to be rewritten.
# The witness reports on it as on any program; nothing is simulated, as nothing could be: its torch is a mock.
TORCH = """
import sys
from unittest.mock import MagicMock
fake = sys.modules["torch"] = MagicMock()
fake.__version__ = "2.13.0"
fake.serialization._open_zipfile_writer_file = type("writer", (), {})
"""
PROGRAM = """
import torch
import json, os, sys, time
import builtins, re
backend = os.environ["TORCHMIGRATE_BACKEND"].partition(":")[0]
rewritten = os.path.exists("accel.py")
def print(*values, **options):
    text = " ".join(map(str, values))  # what has a fraction comes from the device
    builtins.print(re.sub(r"\\d\\.\\d+", "9.9", text) if "TORCHMIGRATE_ALTER" in os.environ else text, **options)
def only_on_cuda():
    assert rewritten or backend == "cuda", "Torch not compiled with CUDA enabled"
def report(kernels=3, random=0):
    counted = {"kernels": kernels, "random_kernels": random, "peak_bytes": [2048]}
    if os.environ["WAY"] == "simulated":
        with open(os.path.join(os.environ["TORCHMIGRATE_REPORTS"], "own.json"), "w") as file:
            json.dump(counted, file)
def unused(x):
    return x.cuda()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the copies go; empty again after every test."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setenv("TMPDIR", str(directory))
    yield directory
    assert [path for path in directory.iterdir() if path.name.startswith("tmv-")] == []


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """A machine whose Python imports a torch that is nothing, and what it has besides."""
    write_tree(tmp_path / "modules", {"torch.py": TORCH})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    real = run.simulated_environment

    def environment(backend: str, *, evidence: str, **rest: object) -> dict[str, str]:
        made = real(backend, evidence=evidence, **rest)  # type: ignore[arg-type]
        return {**made, "WAY": evidence, "TORCHMIGRATE_EVIDENCE": "hardware"}

    monkeypatch.setattr(run, "simulated_environment", environment)

    def make(
        compiler: bool = True,
        native: str | None = None,
        devices: dict[str, Device] | None = None,
        recorded: bool = False,
    ) -> None:
        start = () if recorded else ("-S",)  # without site-packages: no recorder of how a program ends, and quicker
        found = Interpreter(sys.executable, "3.11.0", "2.13.0+cpu", devices=devices or {})
        monkeypatch.setattr(
            "torchmigrate.verify.session.resolve", lambda words, _: Command((sys.executable, *start, *words[1:]), found)
        )
        monkeypatch.setattr(backends, "compiler", lambda: Compiler("/usr/bin/g++", "g++ 12") if compiler else None)
        monkeypatch.setattr(backends, "build", lambda machine: machine)

    make()
    return make


@pytest.fixture
def project(here: Path, machine: Callable[..., None]) -> Path:
    return program(here, "report(); print('loss 0.5')")


def program(here: Path, text: str) -> Path:
    (here / "train.py").write_text(PROGRAM + text + "\n")
    return here


VERIFY = ("verify", ".", "--timeout", "300")
RUN = ("--", "python", "train.py")


def rows(ran: Ran) -> list[list[str]]:
    """The table, without its heading."""
    table = ran.out.split("\n\n")[0].splitlines()[1:]
    return [line.split(maxsplit=4) for line in table]


def kinds(ran: Ran) -> dict[str, str]:
    return {f"{row['project']}@{row['backend']}": row["verdict"] for row in json.loads(ran.out)["runs"]}


def test_windows_is_told_where_it_runs(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("verify", ".", "--help").status == 0  # what looks at the platform when it is imported is there
    monkeypatch.setattr(sys, "platform", "win32")
    ran = cli("verify", ".", "--", "python", "train.py")
    assert ran.status == 2
    assert ran.err.startswith("error: `verify` does not run on Windows")
    assert "under WSL" in ran.err


def test_all_backends_pass(project: Path, cli: Cli) -> None:
    ran = cli(*VERIFY, *RUN)
    assert ran.status == 0
    cells = [(*row[:4], row[4].rpartition(";")[0]) for row in rows(ran)]
    more = "3 kernels; peak 2.0 KiB"
    near = f"1 number within 0.001 of original on cuda; {more}"
    assert cells == [
        ("original", "cuda", "simulated", "PASS", f"the reference: 1 number; {more}"),
        ("rewritten", "cuda", "simulated", "PASS", f"1 number equal to original on cuda; {more}"),
        ("rewritten", "mps", "simulated", "PASS", near),
        ("rewritten", "xpu", "simulated", "PASS", near),
        ("rewritten", "npu", "simulated", "PASS", near),
        ("rewritten", "cpu", "cpu", "PASS", "1 number within 0.001 of original on cuda"),
    ]
    assert "simulated: the whole program ran on the CPU's kernels" in ran.out
    assert "cpu: it runs where there is no accelerator." in ran.out
    assert "hardware:" not in ran.out


def test_it_says_that_it_runs_the_projects_code(project: Path, cli: Cli) -> None:
    ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert ran.err.startswith("this runs the project's code: python train.py, in copies that are deleted afterwards\n")
    assert "rewrote 1 file in a copy: 1 edit\n" in ran.err
    assert "4/4 " in ran.err
    assert "loss" not in ran.err + ran.out  # the program's own output is not mixed into ours
    assert cli(*VERIFY, "--backends", "mps", "-q", *RUN).err == ""


def test_it_does_not_run_without_being_asked(project: Path, cli: Cli) -> None:
    ran = cli("verify", ".")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: verify needs a command to run, after `--`\n"
        "help: as in: torchmigrate verify . -- python train.py --epochs 1\n"
    )


def test_nothing_of_the_project_changes(project: Path, cli: Cli) -> None:
    count = "print(sum(map(os.path.isfile, os.listdir('.'))))"
    program(project, f"report(); open('out.txt', 'w').write('1'); os.remove('train.py'); {count}")
    before = {path: path.read_bytes() for path in project.rglob("*")}
    ran = cli(*VERIFY, "--backends", "cuda,mps", "--output-format", "json", *RUN)
    assert {path: path.read_bytes() for path in project.rglob("*")} == before
    # one more file in the rewritten project, and none from an earlier run
    assert [run["numbers"] for run in json.loads(ran.out)["runs"]] == [[1.0], [2.0], [2.0]]


def test_json(project: Path, cli: Cli) -> None:
    program(
        project,
        "only_on_cuda(); report(random=1)\n"
        "print('loss', 0.5 if backend != 'xpu' else 'nan', 'inf'); sys.exit(backend == 'npu')",
    )
    ran = cli(*VERIFY, "--output-format", "json", *RUN)
    assert ran.status == 1
    data = json.loads(ran.out)
    assert (data["version"], data["torch"], data["python"]) == (__version__, "2.13.0+cpu", "3.11.0")
    original, *_, mps, xpu, npu, cpu = data["runs"]
    seconds = original.pop("seconds")
    assert isinstance(seconds, float)
    assert original == {
        "project": "original",
        "backend": "cuda",
        "evidence": "simulated",
        "tier": "native",
        "verdict": "PASS",
        "reason": "the reference: 2 numbers",
        "exit": 0,
        "error": None,
        "where": None,
        "kernels": 3,
        "peak_bytes": 2048,
        "numbers": [0.5, "inf"],
    }
    assert (mps["verdict"], mps["numbers"]) == ("PASS", [0.5, "inf"])
    assert (xpu["verdict"], xpu["numbers"]) == ("DIFFERS", ["nan", "inf"])
    assert xpu["reason"] == "stdout line 1: nan where the original printed 0.5 (`loss nan inf`)"
    assert (npu["verdict"], npu["exit"]) == ("FAIL", 1)
    assert (cpu["tier"], cpu["kernels"], cpu["verdict"]) == (None, None, "PASS")
    assert [note.partition(":")[0] for note in data["notes"]] == ["simulated", "cpu"]


def test_a_failure_is_shown_with_its_last_lines(project: Path, cli: Cli) -> None:
    program(
        project,
        "only_on_cuda(); report(); print('a', file=sys.stderr)\nif backend == 'mps': raise ValueError('no | here')",
    )
    ran = cli(*VERIFY, "--backends", "cuda,mps", *RUN)
    assert ran.status == 1
    assert re.search(r"rewritten +mps +simulated +FAIL +ValueError: no \| here; ", ran.out)
    details = ran.out.partition("\nrewritten on mps (simulated): FAIL\n")[2]
    line = 1 + (PROGRAM + "\n").count("\n")
    assert details.startswith(f"  train.py:{line}\n")
    assert "  its last lines:\n    a\n    Traceback" in details
    assert "    ValueError: no | here\n" in details
    assert "Traceback" not in ran.err


def test_markdown_and_junit(project: Path, cli: Cli) -> None:
    program(project, "only_on_cuda(); report()\nif backend == 'mps': raise ValueError('no | <here> ```')")
    ran = cli(*VERIFY, "--backends", "mps", "--output-format", "markdown", "--also", "junit=v.xml", *RUN)
    heading, _, *lines = ran.out.splitlines()
    assert heading == "**torchmigrate verify: 1 FAIL**"
    assert lines[:2] == ["| project | backend | evidence | verdict | what was seen |", "|---|---|---|---|---|"]
    assert lines[3].startswith("| rewritten | mps | simulated | FAIL | ValueError: no \\| &lt;here&gt; ```; ")
    assert "<summary>rewritten on mps (simulated): FAIL</summary>" in lines
    assert lines.count("````") == lines.count("````text") == 1
    assert lines[-1] == "torch 2.13.0+cpu, Python 3.11.0."
    suite = ElementTree.parse(project / "v.xml").getroot()[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    original, rewritten = suite
    assert (original.get("classname"), original.get("name")) == ("verify.original", "cuda (simulated)")
    assert (rewritten.get("name"), rewritten[0].get("type")) == ("mps (simulated)", "FAIL")
    assert "train.py:" in str(rewritten[0].text) and "ValueError: no | <here>" in str(rewritten[0].text)


def test_reports_that_cannot_be_written_are_refused_before_anything_runs(project: Path, cli: Cli) -> None:
    for given, error in (("junit", "must be FORMAT=FILE"), ("junti=x", "no such format: junti")):
        ran = cli(*VERIFY, "--also", given, *RUN)
        assert ran.status == 2 and error in ran.err and "runs the project's code" not in ran.err


def test_colour(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mPASS" in cli(*VERIFY, "--backends", "mps", *RUN).out


def test_a_port_that_runs_on_the_cpu_fails(project: Path, cli: Cli) -> None:
    program(project, "only_on_cuda(); report(kernels=0 if rewritten else 3); print('loss 0.5')")
    ran = cli(*VERIFY, "--backends", "mps,cpu", *RUN)
    assert ran.status == 1
    assert "FAIL     ran on the CPU: no kernel was launched on mps; " in ran.out


def test_what_the_original_did_on_a_backend_of_its_own_is_not_lost(project: Path, cli: Cli) -> None:
    program(project, "report(); print('loss 0.5')\nif rewritten and backend == 'mps': raise ValueError('no')")
    ran = cli(*VERIFY, "--backends", "mps,xpu", "--output-format", "json", *RUN)
    assert (ran.status, kinds(ran)["rewritten@mps"]) == (1, "REGRESSED")
    assert kinds(ran)["rewritten@xpu"] == "PASS"
    assert "ValueError: no; the original works on mps" in ran.out
    assert "/8 original on mps (simulated): " in ran.err


def test_numbers_that_the_device_has_no_part_in_are_not_compared(project: Path, cli: Cli) -> None:
    program(project, "report(); print('seed 0 (0/2)')")
    ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert ran.status == 2
    assert "UNCOMPARED  3 numbers as the original's, but none comes from the device: let it print a loss; " in ran.out


def test_original_that_ends_before_it_uses_cuda_is_run_no_more_than_needed(project: Path, cli: Cli) -> None:
    program(project, "report(kernels=0); sys.exit(2)")
    ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert ran.status == 2
    assert "SKIPPED  the original ends with 2 before it uses cuda" in ran.out
    assert "3/3 " in ran.err and "altered" not in ran.err and "original on mps" not in ran.err


def test_runs_that_want_the_same_port_take_turns(
    project: Path, cli: Cli, temporary: Path, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run has no other beside it; of the two after it, one keeps the port until the other asks for it."""
    machine(recorded=True)
    monkeypatch.setenv("STARTED", str(temporary / "started"))
    text = """
import socket
server = socket.socket()
def seen(word):
    with open(os.environ["STARTED"], "a+") as file:
        file.write(word)
        file.flush()
        file.seek(0)
        return file.read()
runs = seen("run ").count("run")
try:
    server.bind(("127.0.0.1", %d))
except OSError:
    seen("taken ")
    raise
for _ in range(6000):
    if runs == 1 or "taken" in seen(""):
        break
    time.sleep(0.01)
report(); print("loss 0.5")
"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program(project, text % port)
    ran = cli(*VERIFY, "--jobs", "2", "--backends", "mps", *RUN)
    assert ran.status == 0, ran.out
    assert "note: a port was taken: these runs are repeated, one at a time\n" in ran.err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert ran.status == 2
    assert "no reference: another program has the port that the original asks for: OSError: " in ran.out


def test_a_program_without_a_device_shows_nothing(project: Path, cli: Cli) -> None:
    program(project, "report(kernels=0)")
    ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert ran.status == 2
    assert "SKIPPED  nothing to show: the original launches no kernel on cuda; " in ran.out


def test_what_fails_before_the_migration_is_told_once(project: Path, cli: Cli, machine: Callable[..., None]) -> None:
    machine(recorded=True)
    program(project, "report(); raise OSError('no data')")
    ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert ran.status == 2
    assert "SKIPPED  no reference: the original itself fails on cuda: OSError: no data; " in ran.out
    assert "SKIPPED  fails as the original does: OSError: no data; " in ran.out
    assert ran.out.count("Traceback") == 1


def test_numbers_that_no_run_repeats_are_left_out(project: Path, cli: Cli) -> None:
    program(project, "report(); print('id', os.getpid(), 'loss 0.5', os.getcwd())")
    ran = cli(*VERIFY, "--backends", "cuda", *RUN)
    assert ran.status == 0
    assert "the reference: 1 number; 1 left out (times, or not the same twice); " in ran.out


def test_tolerance_and_steps(project: Path, cli: Cli) -> None:
    program(
        project, "only_on_cuda(); report()\nfor step in (1, 2): print(step, 0.5 + 0.07 * step * (backend == 'mps'))"
    )
    assert cli(*VERIFY, "--backends", "mps", *RUN).status == 1
    assert cli(*VERIFY, "--backends", "mps", "--tolerance", "0.3", *RUN).status == 0
    assert cli(*VERIFY, "--backends", "mps", "--tolerance", "0.2", *RUN).status == 1
    assert cli(*VERIFY, "--backends", "mps", "--tolerance", "0.2", "--steps", "1", *RUN).status == 0


def test_files_that_runs_write_are_compared_if_asked(project: Path, cli: Cli) -> None:
    program(
        project,
        "only_on_cuda(); report(); print(0.5); open('log.csv', 'w').write('0.7' if backend == 'mps' else '0.5')",
    )
    assert cli(*VERIFY, "--backends", "mps", *RUN).status == 0
    ran = cli(*VERIFY, "--backends", "mps", "--compare", "*.csv", *RUN)
    assert ran.status == 1
    assert "DIFFERS  log.csv: line 1: 0.7 where the original printed 0.5 (`0.7`); " in ran.out
    ran = cli(*VERIFY, "--backends", "mps", "--compare", "*.csv", "--compare", "out/*.csv", *RUN)
    assert ran.status == 2
    assert "--compare out/*.csv: the original writes no such file" in ran.err


def test_a_file_that_only_cuda_writes(project: Path, cli: Cli) -> None:
    program(project, "only_on_cuda(); report(); print(0.5); backend == 'cuda' and open('memory.pickle', 'w').close()")
    ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert ran.status == 1
    assert "DIFFERS  memory.pickle: written by the original, not here (--only-on-cuda, if " in ran.out
    ran = cli(*VERIFY, "--backends", "cuda,mps", "--only-on-cuda", "memory.*", *RUN)
    assert ran.status == 0
    assert ran.out.count("1 file written on cuda alone (memory.pickle); ") == 1
    ran = cli(*VERIFY, "--backends", "mps", "--only-on-cuda", "out/*", *RUN)
    assert ran.status == 2
    assert "--only-on-cuda out/*: the original writes no such file" in ran.err


def test_the_environment_of_the_runs(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_ACCEL_DEVICE", "cpu")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    text = """
assert "GIT_DIR" not in os.environ and os.environ["EXTRA"] == "a=b"
assert os.environ.get("TORCH_ACCEL_DEVICE") == ("cpu" if backend == "cpu" else None)
assert os.environ["TORCHMIGRATE_BACKEND"].endswith("" if backend == "cpu" else ":1" if backend == "mps" else ":2")
assert os.environ["TMPDIR"].startswith(os.path.dirname(os.path.dirname(os.environ["TORCHMIGRATE_REPORTS"])))
assert sys.argv[1:] == [os.path.abspath("train.py"), "--in=" + os.getcwd()] and os.path.isabs(sys.argv[1])
report()
print("loss 0.5")
"""
    program(project, text)
    options = ("--env", "EXTRA=a=b", "--count", "2", "--output-format", "json")
    ran = cli(*VERIFY, *options, *RUN, str(project / "train.py"), f"--in={project}")
    assert set(kinds(ran).values()) == {"PASS"}, ran.out


def test_modules_of_the_project_come_from_the_copy(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an editable install, or PYTHONPATH, points to the user's own files."""
    write_tree(project, {"src/lib.py": "import os; print(int(os.getcwd() in __file__))\n"})
    monkeypatch.setenv("PYTHONPATH", f"{os.environ['PYTHONPATH']}{os.pathsep}{project / 'src'}")
    program(project, "import lib; report()")
    ran = cli(*VERIFY, "--backends", "mps", "--output-format", "json", *RUN)
    assert [run["numbers"] for run in json.loads(ran.out)["runs"]] == [[1.0], [1.0]]


def test_a_python_path_of_the_user_keeps_the_simulation(project: Path, cli: Cli) -> None:
    """`--env PYTHONPATH=src` put away the sitecustomize that starts the simulated device."""
    write_tree(project, {"src/lib.py": "import os; print(int(os.getcwd() in __file__))\n"})
    program(project, "import lib; report()")
    fake = os.environ["PYTHONPATH"]
    for path in (f"src{os.pathsep}{fake}", f"{project / 'src'}{os.pathsep}{fake}"):
        ran = cli(*VERIFY, "--backends", "mps", "--output-format", "json", "--env", f"PYTHONPATH={path}", *RUN)
        found = [(run["numbers"], run["kernels"]) for run in json.loads(ran.out)["runs"]]
        assert [numbers for numbers, _ in found] == [[1.0], [1.0]] and all(kernels for _, kernels in found), ran.out


def test_a_command_that_replaces_the_python_path_is_not_compared(project: Path, cli: Cli) -> None:
    program(project, "print(0.5)")
    ran = cli(*VERIFY, "--backends", "mps", "--output-format", "json", "--", "env", "PYTHONPATH=.", *RUN[1:])
    assert ran.status == 2
    assert "PYTHONPATH was replaced" in json.loads(ran.out)["runs"][-1]["reason"]


def test_real_devices_are_used(project: Path, cli: Cli, machine: Callable[..., None]) -> None:
    machine(devices={"cuda": Device(1, "H200"), "xpu": Device(1, "broken", "RuntimeError: no")})
    program(project, "report(); print(0.5)")
    data = json.loads(cli(*VERIFY, "--output-format", "json", *RUN).out)["runs"]
    assert [(run["backend"], run["evidence"]) for run in data] == [
        ("cuda", "hardware"),
        ("cuda", "hardware"),
        ("mps", "simulated"),
        ("xpu", "simulated"),
        ("npu", "simulated"),
        ("cpu", "cpu"),
    ]


def test_without_a_compiler(project: Path, cli: Cli, machine: Callable[..., None]) -> None:
    machine(compiler=False)
    program(
        project,
        "only_on_cuda(); report(); assert os.environ['TORCHMIGRATE_TIER'] == 'python' or backend == 'cpu'; print(0.5)",
    )
    ran = cli(*VERIFY, *RUN)
    why = "only the C++ tier can simulate {} (no C++ compiler: install g++ or clang++)"
    assert ran.status == 2  # nothing is shown without a reference
    table = [" ".join(" ".join(row).split()) for row in rows(ran)]
    assert f"original cuda SKIPPED no reference: {why.format('cuda')}" in table
    assert f"rewritten mps SKIPPED {why.format('mps')}" in table
    alone = "rewritten npu simulated (python) UNCOMPARED ran to the end; not compared: there is no reference; "
    assert any(row.startswith(alone) for row in table)
    assert cli(*VERIFY, "--backends", "mps", *RUN).status == 2
    machine()
    assert "only the C++ tier can simulate cuda (--tier python)" in cli(*VERIFY, "--tier", "python", *RUN).out


def test_a_part_of_a_repository(project: Path, cli: Cli, machine: Callable[..., None]) -> None:
    machine(recorded=True)
    (project / "sub").mkdir()
    (project / "train.py").rename(project / "sub" / "train.py")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    program(project / "sub", "report(); print(0.5); raise ValueError('no')")
    ran = cli("verify", "sub", "--backends", "mps", *RUN)
    assert "\n  sub/train.py:" in ran.out
    assert git(project, "worktree", "list").count("\n") == 1
    assert not (project / ".git/worktrees").exists()


def test_files_that_cannot_be_rewritten(project: Path, cli: Cli) -> None:
    (project / "old.py").write_text("import torch\nprint 'x'.cuda()\n")
    assert "warning: not rewritten: old.py: line 2: not Python 3" in cli(*VERIFY, "--backends", "mps", *RUN).err


def test_two_equal_projects_are_not_compared(project: Path, cli: Cli) -> None:
    (project / "train.py").write_text(PROGRAM.replace(".cuda()", "") + "report(); print(0.5)\n")
    ran = cli(*VERIFY, "--backends", "mps", *RUN)
    assert (ran.status, ran.out) == (2, "")
    assert "error: there is nothing to rewrite: both projects would be the same\n" in ran.err
    assert "1/1" not in ran.err


@pytest.mark.parametrize("way", ["journal", "git", "work tree"])
def test_a_project_that_is_migrated_is_compared_with_what_it_was(
    project: Path, cli: Cli, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    assert cli("apply", ".", "-q").status == 0
    if way == "git":
        git(project, "add", "-A")
        git(project, "commit", "-qm", "y")
    if way == "work tree":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))  # somebody else applied it
    option = ("--since", "HEAD~1") if way == "git" else ()
    ran = cli(*VERIFY, "--backends", "mps", *option, *RUN)
    assert ran.status == 0, ran.err
    assert "the project is migrated: 1 file of the original restored in a copy\n" in ran.err
    if way == "journal":
        write_tree(project, {"other.py": "import torch\n\nx = torch.ones(1).cuda()\n"})
        assert cli("undo").status == 0 and cli("apply", ".", "--allow-dirty", "-q").status == 0
        (project / "other.py").write_text("import accel\nx = 1\n")
        note = "note: 1 file was edited after `apply` and is in the original as now: --since REV takes"
        assert note in cli(*VERIFY, "--backends", "mps", *RUN).err
    if way == "git":
        ran = cli(*VERIFY, "--since", "HEAD", *RUN)
        assert (ran.status, "error: --since HEAD: no file differs from it\n" in ran.err) == (2, True)
        assert "git knows no commit `nowhere`" in cli(*VERIFY, "--since", "nowhere", *RUN).err


def test_unsafe_fixes_are_applied_if_asked(project: Path, cli: Cli) -> None:
    (project / "train.py").write_text(PROGRAM + "report()\ndef f(): return torch.is_autocast_enabled()\n")
    assert "1 unsafe fix not applied (--unsafe-fixes)" in cli(*VERIFY, "--backends", "mps", *RUN).err
    ran = cli(*VERIFY, "--backends", "mps", "--unsafe-fixes", *RUN)
    assert "unsafe" not in ran.err
    assert "edits" in ran.err


# ---- the ways to end


def test_the_time_limit(project: Path, cli: Cli) -> None:
    program(project, "only_on_cuda(); report()\nif rewritten: time.sleep(600)")
    ran = cli("verify", ".", "--backends", "mps", "--timeout", "6", "--output-format", "json", *RUN)
    run = json.loads(ran.out)["runs"][1]
    assert (ran.status, run["verdict"], run["exit"]) == (1, "FAIL", None)
    assert run["error"] == "still running when its time was up"


# The first run, which has no other beside it, ends; those after it do not.
STARTS = """
with open(os.environ["STARTED"], "a+") as file:
    file.write("%d\\n" % os.getpid())
    file.seek(0)
    runs = file.read().count("\\n")
time.sleep(600 * (runs > 1))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_everything(project: Path, temporary: Path, number: signal.Signals) -> None:
    program(project, STARTS)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    started = temporary / "started"
    code = (
        "import sys\n"
        "from torchmigrate.verify import backends, interpreter as i, session\n"
        "found = i.Interpreter(sys.executable, '3', '2.13.0')\n"
        "session.resolve = lambda words, _: i.Command((sys.executable, '-S', *words[1:]), found)\n"
        "backends.build = lambda machine: machine\n"
        "from torchmigrate.cli.app import main; main()"
    )
    environment = {
        **os.environ,
        "STARTED": str(started),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]]),
    }
    command = [sys.executable, "-c", code, *VERIFY, "--backends", "mps", *RUN]

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    ours = subprocess.Popen(
        command,
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed,
    )
    limit = time.monotonic() + 120
    while (not started.exists() or started.read_text().count("\n") < 3) and time.monotonic() < limit:
        time.sleep(0.05)
    ours.send_signal(number)
    out, err = ours.communicate(timeout=300)
    assert (ours.returncode, out) == (130, "")
    assert err.endswith("error: interrupted; nothing was written\n"), err
    pids = [int(line) for line in started.read_text().split()]
    assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not (project / ".git/worktrees").exists()


# ---- mistakes


def test_the_default_backends_are_those_of_the_help(cli: Cli) -> None:
    told = re.search(r"Some of ([\w,]+) \(all but (\w+)\)", " ".join(cli("verify", "--help").out.split()))
    assert told and [name for name in told[1].split(",") if name != told[2]] == list(backends.DEFAULT)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nowhere", *RUN], "error: nowhere: no such file or directory"),
        (["nowhere"], "error: nowhere: no such file or directory"),
        ([".", "--backends", "mpss", *RUN], "error: --backends names no backend: `mpss`\nhelp: did you mean `mps`?"),
        ([".", "--backends", ",", *RUN], "error: --backends names no backend"),
        ([".", "--env", "A", *RUN], "error: --env A: no value\nhelp: write --env NAME=VALUE"),
        ([".", "--tolerance", "-1", *RUN], "error: --tolerance: "),
        ([".", "--", "./nowhere"], "error: ./nowhere: no such command"),
        ([".", "--", "no-such-command-at-all"], "error: no-such-command-at-all: no such command"),
        ([".", "--", "./train.py"], "error: ./train.py: not executable"),
    ],
)
def test_mistakes(here: Path, cli: Cli, arguments: list[str], error: str) -> None:
    program(here, "")
    ran = cli("verify", *arguments)
    assert (ran.status, ran.out) == (2, "")
    last = ran.err.partition("deleted afterwards\n")[2] or ran.err
    assert last.lower().startswith(error.lower()), ran.err


def test_no_python_with_torch(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    program(here, "")
    monkeypatch.setattr(interpreter, "probe", lambda path: Interpreter(path, "3.11", None, "no torch"))
    ran = cli(*VERIFY, *RUN)
    assert ran.status == 2
    assert "error: no Python with torch found\n" in ran.err
    assert f"  {sys.executable}: no torch\n" in ran.err
    assert "help: name the project's own Python, as in `-- .venv/bin/python train.py`" in ran.err


# ---- with torch itself

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
needs_compiler = pytest.mark.skipif(backends.compiler() is None, reason="no C++ compiler")

REAL = """
import torch
torch.manual_seed(1)
model = torch.nn.Linear(4, 2).cuda()
for step in range(3):
    x = torch.full((8, 4), float(step)).cuda()
    loss = model(x).pow(2).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():  # an optimizer would import torch._dynamo, which takes longer than torch itself
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    print(f"step {step} loss {loss.item():.4f} on {x.device}")
"""

LINKED = """
torch.save(model.state_dict(), "model.pt")
torch.save(model.state_dict(), "last.pt")  # of an earlier run
print("the run's own", len(torch.load("last.pt")) + 5)
try:
    open("data.bin", "r+b")
except PermissionError as error:
    print("data.bin is linked" if "data.bin is only linked here" in str(error) else error, 7)
"""


@needs_torch
@needs_compiler
def test_a_real_program_on_simulated_devices(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")  # the simulated device may be built already
    large = b"\0" * (sandbox.LARGE + 1)
    write_tree(here, {"train.py": REAL + LINKED, "data.bin": large, "last.pt": large})
    ran = cli("verify", ".", "--backends", "cuda,mps", "--output-format", "json", "--", sys.executable, "train.py")
    assert set(kinds(ran).values()) == {"PASS"}, ran.out + ran.err
    runs = json.loads(ran.out)["runs"]
    assert runs[0]["numbers"] == runs[1]["numbers"] and len(runs[0]["numbers"]) == 8
    assert [run["numbers"][-2:] for run in runs] == [[7.0, 7.0]] * 3
    assert (here / "data.bin").read_bytes() == (here / "last.pt").read_bytes() == large
    assert [run["kernels"] > 20 for run in runs] == [True] * 3
    assert runs[0]["kernels"] == runs[1]["kernels"]


@needs_torch
@needs_compiler
def test_a_broken_port_fails_and_the_line_is_named(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    line = "print((torch.ones(2).to('cuda').double() + 1).sum().item())\n"
    (here / "train.py").write_text(f"import torch\nprint(torch.ones(2).cuda().sum().item())\n{line}")
    ran = cli("verify", ".", "--backends", "mps", "--output-format", "json", "--", sys.executable, "train.py")
    found = json.loads(ran.out)["runs"][1]
    assert (ran.status, found["verdict"]) == (1, "FAIL"), ran.out + ran.err
    assert found["error"].startswith("TypeError: Cannot convert a MPS Tensor to float64")
    assert (found["where"]["path"], found["where"]["line"]) == ("train.py", 3)
