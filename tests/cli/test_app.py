"""The contract of the command line: exit codes, streams, formats, the dirty guard, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import fake_engine
import pytest
from conftest import ROOT, Ran, git, python, write_tree

from torchmigrate import __version__
from torchmigrate.apply import writer
from torchmigrate.cli import app, parameters, program
from torchmigrate.cli.migration import run
from torchmigrate.torch_api import names

Cli = Callable[..., Ran]
SAFE, UNSAFE, DISPLAY = "x = x.cuda()\n", "y = y.cuda(1)\n", "z = z.double()\n"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract does not hang on which rules there are."""
    monkeypatch.setattr("torchmigrate.engine.planner.plan", fake_engine.plan)


@pytest.fixture
def project(here: Path, fake: None) -> Path:
    (here / "train.py").write_text(SAFE + UNSAFE + DISPLAY)
    (here / "clean.py").write_text("pass\n")
    return here


STATES = {
    "clean": ("pass\n", 0, 0, 0),
    "safe": (SAFE, 1, 0, 1),
    "unsafe": (UNSAFE, 1, 1, 0),
    "display": (DISPLAY, 1, 0, 0),
    "all": (SAFE + UNSAFE + DISPLAY, 1, 1, 1),
    "safe and display": (SAFE + DISPLAY, 1, 0, 1),
    "dropped": (SAFE + "dropped\n", 1, 1, 1),
    "suppressed": ("hush\n", 0, 0, 0),
}


@pytest.mark.parametrize(("text", "check", "apply", "dry_run"), STATES.values(), ids=STATES.keys())
def test_exit_codes(here: Path, fake: None, cli: Cli, text: str, check: int, apply: int, dry_run: int) -> None:
    (here / "a.py").write_text(text)
    assert cli("check").status == check
    assert cli("check", "--exit-zero").status == 0
    assert cli("apply", "--dry-run").status == dry_run
    assert (here / "a.py").read_text() == text
    assert cli("apply").status == apply
    # whatever else is found, a file that was not read is 2
    (here / "b.py").write_text("print 'x'\n")
    for command in (["check"], ["check", "--exit-zero"], ["apply", "-n"], ["apply"]):
        assert cli(*command).status == 2


def test_apply_says_what_it_did_last(project: Path, cli: Cli) -> None:
    ran = cli("apply")
    assert ran.last == "Rewrote 1 of 2 files: 1 edit by 1 rule. 1 unsafe fix available (--unsafe-fixes), 1 needs you."
    assert (project / "train.py").read_text() == SAFE.replace(".cuda()", ".to(accel.device())") + UNSAFE + DISPLAY
    assert "device/tensor-cuda:" not in ran.out  # what is done is not in the way of what is not
    assert "train.py:2:6: device/tensor-cuda-index: needs CUDA [unsafe fix (--unsafe-fixes)]" in ran.out
    assert "note: not in git; `torchmigrate undo` puts everything back" in ran.err
    assert cli("apply", "--unsafe-fixes").last == "Rewrote 1 of 2 files: 1 edit by 1 rule. 1 needs you."
    assert cli("apply", "--unsafe-fixes").last == "Nothing to rewrite in 2 files. 1 needs you."


def test_check_says_what_it_found(project: Path, cli: Cli) -> None:
    ran = cli("check")
    summary = "Found 3 problems in 1 of 2 files. 1 fix available (torchmigrate apply), "
    assert ran.last == summary + "1 unsafe fix available (--unsafe-fixes), 1 needs you."
    assert ran.out.startswith(
        "train.py:1:6: device/tensor-cuda: needs CUDA [fixable]\n  1 | x = x.cuda()\n    |      ^^^^^^^\n"
    )
    (project / "train.py").unlink()
    assert cli("check").last == "No findings in 1 file."


def test_all_is_well_is_not_said_over_what_was_not_read(here: Path, fake: None, cli: Cli) -> None:
    (here / "a.py").write_bytes(b"\0")
    ran = cli("check", ".", "nowhere.py")
    assert ran.last == "No Python files read. 2 errors."
    assert "error: nowhere.py: no such file or directory\n" in ran.err
    assert ran.out == ""


def test_advice_names_the_helper_as_the_project_has_it_and_how_its_functions_come(here: Path, cli: Cli) -> None:
    """Found in VIBE: the advice was `accel.is_nvidia()`, the helper torch_accel.py, without such a function."""
    (here / "accel.py").write_text("x = 1\n")
    (here / "a.py").write_text("import torch\nx = torch.ones(1).cuda()\ntorch.cuda.set_sync_debug_mode(1)\n")
    ran = cli("apply", "--allow-dirty")
    assert "keep it behind `if torch_accel.is_nvidia():`" in ran.out
    assert "The next apply adds `torch_accel.is_nvidia()` to the helper, once your code calls it." in ran.err
    assert "def is_nvidia" not in (here / "torch_accel.py").read_text()
    text = (here / "a.py").read_text()
    (here / "a.py").write_text(text.replace("torch.cuda.set", "if torch_accel.is_nvidia():\n    torch.cuda.set"))
    assert "The next apply" not in cli("apply", "--allow-dirty").err
    assert "def is_nvidia" in (here / "torch_accel.py").read_text()


def test_streams(project: Path, cli: Cli) -> None:
    (project / "bad.py").write_text("(")
    for command in ("check", "apply"):
        ran = cli(command)
        assert "error: bad.py: line 1" in ran.err
        assert "note: torch 1.10 inferred from requirements.txt" in ran.err
        assert "error" not in ran.out
        assert "Rewrote" not in ran.out
        assert "Found" not in ran.out


def test_quiet_and_verbose(project: Path, cli: Cli) -> None:
    ran = cli("check", "-q")
    assert (ran.err, ran.status) == ("", 1)
    assert ran.out
    err = cli("apply", "-v", "--exclude", "clean.py").err
    assert "rewrote train.py (device/tensor-cuda)\n" in err
    assert "skipped clean.py: excluded by `clean.py`\n" in err


def test_the_dry_run_applies_as_a_patch(project: Path, cli: Cli) -> None:
    git(project, "init", "-q")
    patch = cli("apply", "-n").out
    assert "--- a/train.py\n+++ b/train.py\n@@ -1,3 +1,3 @@ device/tensor-cuda\n" in patch
    file = project.parent / "patch"
    file.write_text(patch)  # the findings after the diff are no hindrance
    git(project, "apply", "--check", str(file))
    subprocess.run(["patch", "-p1", "--dry-run", "-i", str(file)], check=True, capture_output=True, cwd=project)
    git(project, "apply", str(file))
    assert "x.to(accel.device())" in (project / "train.py").read_text()
    assert cli("apply", "-n").status == 0


def test_the_diff_of_a_project_elsewhere_is_relative_to_it(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    (project / "pyproject.toml").touch()
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    ran = cli("apply", "-n", "..")
    assert "--- a/train.py\n" in ran.out
    assert f"note: paths are relative to {project}\n" in ran.err


def test_concise(project: Path, cli: Cli) -> None:
    assert cli("check", "--output-format", "concise").out.splitlines() == [
        "train.py:1:6: device/tensor-cuda: needs CUDA [fixable]",
        "train.py:2:6: device/tensor-cuda-index: needs CUDA [unsafe fix]",
        "train.py:3:6: hazard/float64: needs CUDA",
    ]


def test_json(project: Path, cli: Cli) -> None:
    (project / "bad.py").write_text("(")
    ran = cli("check", "--output-format", "json")
    data = json.loads(ran.out)
    assert data["version"] == __version__
    assert data["errors"][0]["file"] == "bad.py"
    assert [f["rule"] for f in data["findings"]] == ["device/tensor-cuda", "device/tensor-cuda-index", "hazard/float64"]
    assert data["findings"][0] == {
        "rule": "device/tensor-cuda",
        "safety": "safe",
        "status": "open",
        "file": "train.py",
        "cell": None,
        "span": {"start": {"line": 1, "column": 6}, "end": {"line": 1, "column": 13}},
        "message": "needs CUDA",
        "backends": ["mps"],
        "fix": {"safety": "safe", "edits": [{"start": 5, "end": 12, "text": ".to(accel.device())"}]},
        "applied": False,
        "url": "https://x.test",
    }
    summary = data["summary"]
    assert (summary["findings"], summary["fixable"], summary["unsafe"], summary["needs_you"]) == (3, 1, 1, 1)
    data = json.loads(cli("apply", "--output-format", "json").out)
    assert [f["applied"] for f in data["findings"]] == [True, False, False]
    assert data["summary"]["changed"] == ["train.py"]


def test_a_report_to_a_file(project: Path, cli: Cli) -> None:
    ran = cli("check", "-o", "report.txt")
    assert ran.out == ""
    assert "device/tensor-cuda" in (project / "report.txt").read_text()
    ran = cli("check", "-o", "nowhere/report.txt")
    assert (ran.status, ran.err.splitlines()[-2]) == (
        2,
        "error: cannot write nowhere/report.txt: no such file or directory",
    )


def test_statistics(project: Path, cli: Cli) -> None:
    out = cli("check", "--statistics").out.splitlines()
    assert [line.split() for line in out] == [
        ["rule", "found"],
        ["device/tensor-cuda", "1"],
        ["device/tensor-cuda-index", "1"],
        ["hazard/float64", "1"],
    ]
    out = cli("apply", "--statistics").out.splitlines()
    assert ["device/tensor-cuda", "1", "0"] in [line.split() for line in out]


def test_backends_choose_whose_problems_are_told(project: Path, cli: Cli) -> None:
    assert cli("check", "--backends", "xpu,npu").status == 0
    assert cli("check", "--backends", "xpu", "--backends", "mps").status == 1
    ran = cli("check", "--backends", "mpss")
    assert (ran.status, "did you mean `mps`?" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colour(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in cli("check").out) is coloured
    assert ("\x1b[" in cli("apply", "-n").out) is coloured
    assert "\x1b[" not in cli("check", "--output-format", "json").out


def test_the_dirty_guard(project: Path, cli: Cli) -> None:
    git(project, "init", "-q")
    (project / ".gitignore").write_text("ignored.py\nout/\n")
    for name in ("staged.py", "scratch/x.py", "ignored.py", "out/a.py", "out/b.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(SAFE)
    git(project, "add", "train.py", "clean.py")
    git(project, "commit", "-qm", "x")
    git(project, "add", "staged.py")
    (project / "train.py").write_text(SAFE * 2)
    (project / "clean.py").write_text("# changed, but not to be written\n")
    ran = cli("apply", ".", "ignored.py", "out/a.py")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: 4 files have changes git could not restore; torchmigrate would overwrite them\n"
        "  ignored.py     (ignored)\n"
        "  out/a.py       (ignored)\n"
        "  scratch/x.py   (untracked)\n"
        "  train.py       (unstaged)\n"
        "help: commit or stash them, or pass --allow-dirty\n"
    )
    assert (project / "staged.py").read_text() == SAFE
    assert cli("apply", "-n").status == 1  # writes nothing, so guards nothing
    ran = cli("apply", "train.py")
    assert "error: 1 file has changes git could not restore; torchmigrate would overwrite it\n" in ran.err
    assert cli("apply", "staged.py").status == 0
    assert cli("apply", "--allow-dirty").last.startswith("Rewrote 2 of 4 files")


@pytest.mark.slow
@pytest.mark.parametrize("directory", [".", "sub"])
def test_the_guard_in_a_commit_hook(project: Path, directory: str) -> None:
    """git sets GIT_INDEX_FILE and its like there; what is staged may be rewritten."""
    git(project, "init", "-q")
    (project / "sub").mkdir()
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    command = f"cd {directory} && {sys.executable} -m torchmigrate apply {project}/train.py"
    hook.write_text(f"#!/bin/sh\nexport PYTHONPATH={ROOT}\n{command}\n")
    hook.chmod(0o755)
    (project / "train.py").write_text("import torch\n\n" + SAFE)
    git(project, "add", "train.py")
    git(project, "commit", "-qm", "x")  # apply exits 0
    assert ".to(accel.device())" in (project / "train.py").read_text()
    (project / "train.py").write_text("import torch\n\n" + SAFE * 2)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        git(project, "commit", "--allow-empty", "-qm", "y")
    assert "(unstaged)" in caught.value.stderr


def test_undo(project: Path, cli: Cli) -> None:
    before = (project / "train.py").read_bytes()
    cli("apply")
    ran = cli("undo")
    assert (ran.status, ran.out, ran.last) == (0, "restored: train.py\n", "Put back 1 of 1 files.")
    assert (project / "train.py").read_bytes() == before
    ran = cli("undo")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "error: nothing to undo in this directory")
    cli("apply")
    (project / "train.py").write_text("mine\n")
    ran = cli("undo")
    assert (ran.status, ran.last) == (2, "Put back 0 of 1 files, 1 left as it is.")
    assert "error: train.py: changed since; left as it is\n" in ran.err


def test_ctrl_c_before_the_first_write(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("torchmigrate.engine.planner.plan", interrupted)
    ran = cli("apply")
    assert (ran.status, ran.err) == (130, "error: interrupted; nothing was written\n")


def test_ctrl_c_between_two_writes(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.py").write_text(SAFE)
    real = writer.each

    def each(changes: list[object]) -> Iterator[object]:
        yield next(iter(real(changes)))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "each", each)
    ran = cli("apply")
    assert ran.status == 130
    assert "error: interrupted; 1 of 2 files were written, each of them whole\n" in ran.err
    assert "help: `torchmigrate undo` puts them back\n" in ran.err
    monkeypatch.setattr(writer, "each", real)
    assert cli("undo").status == 0
    assert (project / "a.py").read_text() == SAFE


def test_too_little_memory_is_no_bug(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("torchmigrate.engine.planner.plan", greedy)
    ran = cli("check")
    assert ran.status == 2 and ran.err.startswith("error: there is not enough memory for this\nhelp: "), ran.err


def test_a_bug_of_ours_is_no_traceback(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("torchmigrate.engine.planner.plan", broken)
    ran = cli("check")
    assert (ran.status, "Traceback" in ran.err) == (2, False)
    assert ran.err.startswith("error: internal error: ZeroDivisionError: oh (") and "test_app.py:" in ran.err
    assert f"\nhelp: this is a bug in torchmigrate {__version__}: please report" in ran.err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["check", "--nonsense"], "error: no such option: --nonsense"),
        (["chekc"], "error: there is no command `chekc`\nhelp: did you mean `check`?"),
        (["check", "--output-format", "xml"], "error: --output-format: `xml` is none of text, concise"),
        (["check", "-j", "0"], "error: --jobs: must be at least 1"),
        (["check", "--select", "devise"], "error: --select: unknown rule or pack `devise`"),
        (["check", "--torch", "new"], "error: --torch must be a version specifier"),
        (["check", "--config", "nowhere.toml"], "error: nowhere.toml: no such configuration file"),
        (["explain"], "error: missing argument 'NAME'"),
        (["rules", "nowhere"], "error: unknown rule or pack `nowhere`"),
    ],
)
def test_mistakes_on_the_command_line(here: Path, cli: Cli, arguments: list[str], error: str) -> None:
    ran = cli(*arguments)
    assert ran.status == 2
    assert ran.err.lower().startswith(error.lower()), ran.err
    assert "help: " in ran.err


def test_names_are_lists_by_comma_or_repetition(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def plan(paths: object, settings: object, *rest: object) -> object:
        seen.append(settings)
        return fake_engine.plan(paths, settings, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("torchmigrate.engine.planner.plan", plan)
    names = ("--select", "device,amp", "--select", "memory", "--ignore", "stream")
    cli("apply", "-n", *names, "--runtime", "package", "--torch", ">=2.1")
    settings = seen[0]
    assert (settings.select, settings.ignore, settings.runtime, settings.torch) == (
        ("device", "amp", "memory"),
        ("stream",),
        "package",
        ">=2.1",
    )
    assert (settings.unsafe_fixes, settings.no_cache) == (False, False)
    cli("apply", "-n", "--unsafe-fixes", "--no-cache")
    assert (seen[1].unsafe_fixes, seen[1].no_cache) == (True, True)


def test_exclude_is_relative_to_the_current_directory(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").touch()
    (project / "sub" / "gen").mkdir(parents=True)
    (project / "sub" / "gen" / "a.py").write_text(SAFE)
    (project / "gen").mkdir()
    (project / "gen" / "b.py").write_text(SAFE)
    monkeypatch.chdir(project / "sub")
    ran = cli("check", "..", "--exclude", "gen/*", "--output-format", "concise")
    assert ran.out.startswith("gen/b.py:1:6: ")
    assert "a.py" not in ran.out
    assert f"note: paths are relative to {project}\n" in ran.err
    document = json.loads(cli("check", "..", "--exclude", "gen/*", "--output-format", "json").out)
    assert {f["file"] for f in document["findings"]} >= {f"{project}/gen/b.py"}, "a program gets paths that open"


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").out == f"torchmigrate {__version__}\n"
    for arguments in ([], ["--help"], ["apply", "--help"]):
        ran = cli(*arguments)
        assert (ran.status, ran.out.startswith("Usage: ")) == (0, True)


def test_starting_up_imports_nothing_heavy() -> None:
    heavy = '("libcst", "git", "torch", "rich", "tomllib", "yaml", "multiprocessing")'
    done = python(f"import torchmigrate.cli.app, sys; print([m for m in {heavy} if m in sys.modules])")
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", ["check", "apply"])
def test_plain_options_mean_to_us_what_they_mean_to_typer(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, object]] = []
    monkeypatch.setattr(run, "run", lambda mode, **options: calls.append({"mode": mode, **options}) or 0)
    function = app._PLAIN[command]
    options = parameters._options(function)
    values = ["src", "4", "0", "07", "json", "JSON", "always", "device,memory", ">=2.1", "native", "", "-", "-x"]
    names = [*options, "--", "--help", "-h", "-qv", "-j4", "--sel", "--nope", "x=y", *values]
    lines = [[name, *value] for name in options for value in ([], *([each] for each in values))]
    lines += [[f"{name}={value}"] for name in options for value in values]
    lines += [Random(16 + seed).choices(names, k=1 + seed % 6) for seed in range(200)]
    read = [(words, given) for words in lines if (given := parameters.plain(function, words)) is not None]
    assert {word for words, _ in read for word in words} >= {*options}
    for words, given in read:
        calls.clear()
        function(**given)
        assert program.run([command, *words]) == 0
        assert calls == [calls[0]] * 2, words


@pytest.mark.slow
def test_a_plain_line_needs_no_typer(here: Path) -> None:
    (here / "a.py").write_text("import torch\nx = torch.ones(2).cuda()\n")
    for words in (["check", "-q"], ["apply", "-n", "--select", "device"], ["check", "--output-format=json", "-j", "2"]):
        code = "import sys, torchmigrate.cli.app as app; app.run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
        done = python(code, *words, str(here))
        assert "torchmigrate.cli.app" in done.stderr.split()
        assert "typer" not in done.stderr.split(), words


@pytest.mark.slow
def test_python_m_and_a_closed_pipe(project: Path) -> None:
    for number in range(300):
        (project / f"f{number}.py").write_text(SAFE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = f"{sys.executable} -m torchmigrate check --output-format concise . | head -n 1"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=environment, check=False, cwd=project
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_one_place_is_one_finding(here: Path, cli: Cli) -> None:
    (here / "a.py").write_text(
        "import torch\n"
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "x = torch.zeros(2).cuda(torch.cuda.current_device())\n"  # two: the second stays in the text of the first
    )
    found = cli("check", "--output-format", "concise").out
    assert [line.split()[:2] for line in found.splitlines()] == [
        ["a.py:2:23:", "device/device-idiom:"],
        ["a.py:3:5:", "device/tensor-cuda:"],
        ["a.py:3:25:", "device/count:"],
    ]
    assert cli("apply", "-q").status == 0
    assert cli("check", "-q").out == ""


def test_colours_are_asked_for(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (["check"], ["apply", "-n"]):
        assert "\x1b[" in cli(*command, "--color", "always").out
        assert "\x1b[" not in cli(*command, "--color", "auto").out
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[" not in cli(*command, "--color", "never").out
        monkeypatch.delenv("FORCE_COLOR")


def test_ignores_are_added_in_bulk_and_undone(here: Path, cli: Cli) -> None:
    (here / "a.py").write_text("import torch\n\nx = torch.zeros(2).cuda()\ny = x.double().cuda()\n")
    (here / "Dockerfile").write_text("FROM nvidia/cuda:12.1.0-runtime-ubuntu22.04\nRUN true\n")
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert cli("check").status == 1
    ran = cli("check", "--add-ignores")
    assert (ran.status, ran.out) == (0, "")
    assert "note: comments in 2 files ignore 4 findings from now on\n" in ran.err
    assert cli("check").status == 0
    assert cli("check", "--add-ignores").status == 0  # nothing to add
    assert cli("undo").status == 0
    assert {path: path.read_bytes() for path in here.iterdir()} == before


def test_a_floor_may_be_a_release_candidate(here: Path, cli: Cli) -> None:
    (here / "a.py").write_text("import torch\n\nscaler = torch.cuda.amp.GradScaler()\n")
    for spec in (">=2.1rc1", "==2.3.0+cu118", ">=2.4.dev20240501,<3", "2.1"):
        assert cli("check", "--torch", spec).status == 1, spec
    assert [names.version_of(s) for s in (">=2.1rc1", "==2.3.0+cu118,<3", "<2rc1", ">2.post1")] == [
        (2, 1),
        (2, 3),
        None,
        (2, 0),
    ]


def test_start_says_what_comes_next_and_writes_nothing(here: Path, cli: Cli) -> None:
    (here / "net.py").write_text("import torch\n\n\ndef loss(x):\n    torch.cuda.CUDAGraph()\n    return x.cuda()\n")
    (here / "aside.py").write_text("import torch\nimport apex\n\ny = torch.zeros(2, device='cuda')\n")
    (here / "train.py").write_text("import net\n\nif __name__ == '__main__':\n    net.loss(0)\n")
    (here / "Dockerfile").write_text("FROM nvcr.io/nvidia/pytorch:22.10-py3\n")
    before = {path: path.read_bytes() for path in here.iterdir()}
    ran = cli("start")
    assert ran.status == 0
    assert {path: path.read_bytes() for path in here.iterdir()} == before
    lines = ran.out.splitlines()
    assert lines[0].endswith(": 4 files read")
    assert lines[1].startswith("Tied to CUDA in ")
    assert ran.out.index("net.py:5") < ran.out.index("aside.py:2"), "the program imports net.py"
    assert ran.out.index("aside.py:2") < ran.out.index("Dockerfile:1"), (
        "no Dockerfile stops a program, on five backends"
    )
    commands = [line.split("  ")[1] for line in lines[lines.index("Next") + 1 : -1]]
    assert lines[-1].startswith("For `verify`, add arguments ") and len(lines[-1]) <= 80
    assert commands[1:3] == ["torchmigrate apply", "torchmigrate verify . -- python train.py"]
    write_tree(here / "venv", {"bin/python": ""})
    assert "-- venv/bin/python train.py\n" in cli("start").out, "what stands ready in the project is named"
    shutil.rmtree(here / "venv")
    assert cli(*commands[0].split()[1:]).status == 1  # a diff
    assert cli(*commands[1].split()[1:]).status == 0
    assert "torchmigrate apply" not in cli("start").out
    assert cli(*commands[3].split()[1:]).status == 0
    assert {path: path.read_bytes() for path in here.iterdir()} == before


@pytest.mark.parametrize("style", ["auto", "helper", "native"])
def test_the_style_of_the_command_line_counts_above_that_of_the_project(here: Path, cli: Cli, style: str) -> None:
    other = "helper" if style == "auto" else "auto"
    (here / "pyproject.toml").write_text(f'[tool.torchmigrate]\nstyle = "{other}"\ntorch = ">=2.9"\n')
    (here / "a.py").write_text("import torch\n\n\ndef f(x):\n    return x.to('cuda')\n")
    ran = cli("apply", "--dry-run", "--style", style)
    assert ran.status == 1
    assert ("accel.device()" in ran.out) is (style == "helper")
    assert ("torch.accelerator.current_accelerator" in ran.out.split("accel.py")[0]) is (style != "helper")


LONG = "tools/train_a_network_that_has_a_long_name.py"
COUNTED = {
    "meter.py": "class Meter:\n    def cuda(self):\n        return self\n\n\ndef move(x):\n    return x.cuda()\n",
    LONG: "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n\n\n"
    "def train(rank):\n    net = torch.nn.Linear(1, 1).cuda(rank)\n"
    "    ddp = DDP(net, device_ids=[rank], output_device=rank)\n"
    "    ddp(torch.ones(1).cuda()).backward()\n\n\nif __name__ == '__main__':\n    train(0)\n",
}


def test_start_counts_as_check_and_apply_do(here: Path, cli: Cli) -> None:
    write_tree(here, COUNTED)
    told = cli("start").out
    check = re.search(r"Found (\d+) problems at (\d+ places)", cli("check").err)
    edits = re.search(r"(\d+ edits) by", cli("apply", "--dry-run").err)
    left = re.search(r"(\d+) unsafe fix.*, (\d+) needs? you", cli("apply", "--dry-run").err)
    assert check and edits and left
    assert f"Tied to CUDA in {check[2]}" in told, "two findings at one place are one place"
    assert f"make {edits[1]}" in told
    assert re.search(rf"--unsafe-fixes +{left[1]} more", told)
    assert f"Left for you after `apply` ({left[2]})" in told
    assert max(map(len, told.splitlines())) <= 80, "a long command stands on a line of its own"
    assert f"{LONG}\n   " in told


def test_start_where_nothing_is(here: Path, cli: Cli) -> None:
    ran = cli("start", "nowhere")
    assert (ran.status, ran.out, ran.err) == (2, "", "error: nowhere: no such file or directory\n")


def test_start_where_nothing_is_tied_to_cuda(here: Path, cli: Cli) -> None:
    (here / "a.py").write_text("print(1)\n")
    assert cli("start").out.splitlines()[1] == "Nothing here is tied to CUDA."


LEFT = {
    "Dockerfile": "FROM nvcr.io/nvidia/pytorch:22.10-py3\n",
    "aside.py": "import torch\nimport apex\n\ny = torch.zeros(2, dtype=torch.float64, device='cuda')\n",
    "deep.py": "import torch\n\n\ndef f():\n    return torch.cuda.CUDAGraph()\n",
    "kernels/a.cu": "#include <ATen/ATen.h>\n",
    "kernels/b.cu": "#include <ATen/ATen.h>\n",
    "zz.py": "import torch\nimport deep\n\nif __name__ == '__main__':\n    deep.f().backward()\n"
    "    torch.cuda.CUDAGraph()\n",
}


def test_what_is_left_begins_with_what_stops_the_program(here: Path, cli: Cli) -> None:
    write_tree(here, LEFT)
    left = [line.split(": ")[:2] for line in cli("apply").out.splitlines() if line[:1].strip()]
    assert left[0] == ["zz.py:6:5", "hazard/cuda-only"], "the program is first, whatever its name"
    assert "deep.py:5" in cli("apply").out.split("aside.py")[0], "it imports deep.py"
    files = [place.split(":")[0] for place, _ in left]
    assert files.index("aside.py") < min(files.index("Dockerfile"), files.index("kernels/a.cu"))
    assert "= and 1 more: kernels/b.cu:1\n" in cli("apply").out, "what other files repeat is told once"
    checked = [line.split(":")[0] for line in cli("check").out.splitlines() if line[:1].strip()]
    assert checked == sorted(checked), "check goes by file, as linters do"
    assert {"kernels/a.cu", "kernels/b.cu"} <= {*checked}
    told = [finding["file"] for finding in json.loads(cli("apply", "--output-format", "json").out)["findings"]]
    assert told == sorted(told), "and so do reports for programs"


def test_what_is_left_of_a_project_without_a_program(here: Path, cli: Cli) -> None:
    write_tree(here, {name: text for name, text in LEFT.items() if name != "zz.py"})
    lines = [line for line in cli("apply").out.splitlines() if line[:1].strip()]
    assert [line.split(":")[0] for line in lines[:1]] == ["aside.py"] and lines[-1].startswith("kernels/a.cu")


OLD = "import torch\n\nx = torch.ones(1).cuda(async=True)\n"


def test_start_does_not_say_that_nothing_is_tied_to_cuda_where_it_could_not_read(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.py": OLD, "b.py": "print(1)\n"})
    ran = cli("start")
    assert ran.status == 2 and "Nothing here is tied to CUDA." not in ran.out
    assert ran.out.splitlines()[1].startswith("Nothing that could be read is tied to CUDA. Mend ")
    assert "write `non_blocking=`" in " ".join(ran.err.split())
    write_tree(here, {"b.py": "import torch\n\nx = torch.ones(1).cuda()\n", **{f"c{i}.py": OLD for i in range(4)}})
    ran = cli("start")
    assert "Not counted: 5 files that could not be read" in ran.out and ran.err.count("error: ") == 3
    assert "and 2 more: `torchmigrate check` lists them" in ran.err


# ---- where what is left stands, and the lines that its reasons name


KERNELS = """\
import torch
import apex

x = torch.zeros(2).cuda()
print("line 6")
if torch.cuda.is_available():
    apex.run(x)
    x = x.cuda()
"""


@pytest.mark.parametrize("command", [("apply",), ("apply", "--dry-run")], ids=" ".join)
def test_reasons_name_lines_of_the_text_that_positions_are_in(
    command: tuple[str, ...], here: Path, cli: Callable[..., Ran]
) -> None:
    """Both are lines of the written file, which has the helper's import above them."""
    write_tree(here, {"a.py": KERNELS})
    said = cli(*command, "-v").err
    new = KERNELS.replace("import apex\n", "import apex\nimport accel\n").splitlines()
    where = {int(line): reason for line, reason in re.findall(r"^left a\.py:(\d+):.*\(line (\d+)\)", said, re.M)}
    assert [new[line - 1].strip() for line in where] == ["if torch.cuda.is_available():", "x = x.cuda()"]
    assert {new[int(line) - 1].strip() for line in where.values()} == {"apex.run(x)"}
