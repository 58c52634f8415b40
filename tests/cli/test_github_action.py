"""action.yml: its facts, and its steps run in a shell as GitHub's runner runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_runner import Job, Runner, commands, outputs
from conftest import ROOT, Ran, copy_of_package, git, write_tree

Cli = Callable[..., Ran]
METADATA = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SCRIPT = ROOT / ".github" / "action" / "install.sh"

# line ends of all sorts, characters of one to four bytes in front of what is found, a BOM, latin-1
FILES = {
    "crlf é.py": "# é 🎉\r\nimport torch\r\n\r\ns = '🎉é'; x = torch.zeros(3).cuda()\r\n",
    "latin.py": "# -*- coding: latin-1 -*-\r\nimport torch\r\ns = 'é'; torch.cuda.empty_cache()\r\n".encode("latin-1"),
    "bom.py": "\ufeffimport torch\ns = '\u2028\x0c'\ny = torch.zeros(\n    2,\n    device='cuda',  # é\n)\n",
    "nb.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": ["# é\n"]},
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "metadata": {},
                    "outputs": [],
                    "source": ["import torch\n", "torch.cuda.synchronize()"],
                },
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 4,
        },
        indent=1,
        ensure_ascii=False,
    ),
    "clean.py": "x = 1\n",
}
BROKEN = "import torch\ntorch.cuda.synchronize(\n"
FOUND = {  # what the finding of each file is about
    "crlf é.py": ".cuda()",
    "latin.py": "torch.cuda.empty_cache()",
    "bom.py": "'cuda'",
    "nb.ipynb": "torch.cuda.synchronize()",
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout full of modules that Python, pip and this program could take for theirs."""
    names = ("venv", "pip", "ensurepip", "hatchling", "torchmigrate", "typer", "git", "json", "site", "sitecustomize")
    files = {f"{name}.py": "open('pwned', 'w')\nimport torch\n" for name in names}
    return write_tree(tmp_path_factory.mktemp("planted"), files | {"pip/__main__.py": "open('pwned', 'w')\n"})


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, planted: Path) -> Runner:
    """The action at a path with a space, as a release has it. What it installs in its first use serves all tests."""
    if shutil.which("bash") is None:
        pytest.skip("the action's steps are for bash")
    action = copy_of_package(tmp_path_factory.mktemp("action") / "the action")
    made = Runner(action, tmp_path_factory.mktemp("runner temp"))
    quick = {"PIP_NO_COMPILE": "0"}  # "0" is yes to pip; most of these modules are never imported
    job = made.use(planted, {"PYTHONPATH": str(planted), "GIT_CONFIG_GLOBAL": os.devnull, **quick})
    assert job.status == 0, job.log
    return made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checkout with findings."""
    root = write_tree(tmp_path / "work space", FILES)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "base")
    return root


def lines_of(file: Path) -> list[str]:
    """As GitHub's editors count them, by \\n."""
    encoding = "latin-1" if file.name == "latin.py" else "utf-8-sig"
    return file.read_bytes().decode(encoding).split("\n")


# ---- the file


def test_the_file_is_as_github_documents_it() -> None:
    assert METADATA.keys() == {"name", "description", "author", "branding", "inputs", "outputs", "runs"}
    assert METADATA["branding"]["color"] in {"white", "yellow", "blue", "green", "orange", "red", "purple", "gray-dark"}
    assert METADATA["runs"].keys() == {"using", "steps"} and METADATA["runs"]["using"] == "composite"
    for facts in METADATA["inputs"].values():
        assert facts.keys() <= {"description", "required", "default"} and isinstance(facts.get("default", ""), str)
        assert facts["description"]
    for facts in METADATA["outputs"].values():
        assert facts.keys() == {"description", "value"}
    for step in METADATA["runs"]["steps"]:
        assert step.keys() <= {"name", "id", "shell", "env", "run"} and step["shell"] == "bash"
    assert len(METADATA["description"]) <= 125  # what the marketplace shows


def test_no_input_is_pasted_into_a_script() -> None:
    steps = METADATA["runs"]["steps"]
    assert not [step["run"] for step in steps if "${{" in step["run"]]
    assert "${{" not in SCRIPT.read_text(encoding="utf-8")
    used = re.findall(r"inputs\.([\w-]+)", " ".join(str(value) for step in steps for value in step["env"].values()))
    assert Counter(used) == Counter(list(METADATA["inputs"]))  # each of them once


def test_each_variable_is_read() -> None:
    python = (ROOT / "torchmigrate/cli/commands/github_action.py").read_text(encoding="utf-8")
    given = {name.removeprefix("INPUT_") for step in METADATA["runs"]["steps"] for name in step["env"]}
    assert given - {"PYTHON"} == set(re.findall(r'"([A-Z_]{4,})"', python)) - {
        "GITHUB_OUTPUT",
        "GITHUB_STEP_SUMMARY",
        "RUNNER_TEMP",
    }


def test_the_script_is_executable_and_clean() -> None:
    assert os.access(SCRIPT, os.X_OK)
    if (tool := shutil.which("shellcheck")) is None:
        pytest.skip("no shellcheck here")
    subprocess.run([tool, SCRIPT], check=True)


def test_the_runner_of_these_tests_reads_what_githubs_does() -> None:
    assert outputs("a=b=c\nd<<E\n1\n2\nE\n") == {"a": "b=c", "d": "1\n2"}
    log = "::warning file=a%2Cb,line=3::x%0Ay\n::stop-commands::T\n::error::no\n::T::\n  ::error::yes\nx ::error::no\n"
    found = [(each.level, each.properties, each.message) for each in commands(log)]
    assert found == [("warning", {"file": "a,b", "line": "3"}, "x\ny"), ("error", {}, "yes")]


# ---- what it does


@pytest.fixture(scope="module")
def whole(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    """One use with all that it can write."""
    root = write_tree(tmp_path_factory.mktemp("whole"), FILES)
    env = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, env=os.environ | env)
    return runner.use(root, env, suggest="true", sarif_file="out of.sarif", verbose="True"), root


def test_annotations_point_to_the_lines(whole: tuple[Job, Path]) -> None:
    job, root = whole
    assert sorted(note.properties["file"] for note in job.annotations) == sorted(FOUND)
    for note in job.annotations:
        what = FOUND[note.properties["file"]]
        (line,) = (n for n, text in enumerate(lines_of(root / note.properties["file"]), 1) if what in text)
        assert note.properties["line"] == note.properties["endLine"] == str(line)
        text = lines_of(root / note.properties["file"])[line - 1]
        if "col" in note.properties:  # UTF-16 units, from 1
            units = text.encode("utf-16-le")
            start, end = int(note.properties["col"]), int(note.properties["endColumn"])
            assert what in units[2 * start - 2 : 2 * end - 2].decode("utf-16-le")
        assert note.level == "warning" and note.properties["title"].count("/") == 1 and note.message


def test_summary_outputs_and_status(whole: tuple[Job, Path]) -> None:
    job, root = whole
    assert job.status == 1
    assert job.outputs["exit-code"] == "1" and job.outputs["findings"] == "4"
    assert job.summary.startswith("## torchmigrate\n\nWould rewrite 4 of 5 files and add accel.py")
    assert "```diff" in job.summary and "device/tensor-cuda: 1" in job.summary
    assert len(job.summary) < 2**20
    sarif = json.loads(Path(job.outputs["sarif"]).read_bytes())
    assert Path(job.outputs["sarif"]) == root / "out of.sarif"
    assert len(sarif["runs"][0]["results"]) == 4
    assert "would rewrite" in job.log  # --verbose


def test_the_patch_is_what_apply_writes(
    whole: tuple[Job, Path], tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _ = whole
    (patched, applied) = (write_tree(tmp_path / name, FILES) for name in ("patched", "applied"))
    git(patched, "init", "-q")
    git(patched, "apply", job.outputs["patch"])
    monkeypatch.chdir(applied)
    ran = cli("apply")
    assert ran.status == 0
    for name in [*FILES, "accel.py"]:
        if not name.endswith(".ipynb"):
            assert (patched / name).read_bytes() == (applied / name).read_bytes(), name
    assert Path(job.outputs["patch"]).name == "torchmigrate.patch"


def test_no_torch_is_installed(whole: tuple[Job, Path], runner: Runner) -> None:
    python = next(runner.temp.glob("torchmigrate/*/python"), runner.temp / "torchmigrate/Scripts/python.exe")
    code = "import importlib.util as u, torchmigrate; print(u.find_spec('torch'), torchmigrate.__file__)"
    ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(f"None {runner.temp}")


def test_a_clean_tree(runner: Runner, tmp_path: Path) -> None:
    job = runner.use(write_tree(tmp_path, {"a.py": "x = 1\n"}), suggest="true")
    assert job.status == 0 and job.annotations == []
    assert job.outputs == {"exit-code": "0", "findings": "0", "patch": "", "sarif": ""}
    assert job.summary == "## torchmigrate\n\nNothing to rewrite in 1 file.\n"


@pytest.mark.parametrize(
    ("files", "given", "code", "status"),
    [
        ({"a.py": "import torch\ntorch.cuda.synchronize()\n"}, {"fail_on": "error"}, "1", 0),
        ({"a.py": "import torch\ntorch.cuda.synchronize()\n"}, {"fail_on": "never"}, "1", 0),
        ({"a.py": BROKEN, "b.py": "import torch\ntorch.cuda.synchronize()\n"}, {"fail_on": "error"}, "2", 2),
        ({"a.py": BROKEN, "b.py": "import torch\ntorch.cuda.synchronize()\n"}, {"fail_on": "never"}, "2", 0),
    ],
)
def test_when_it_fails(
    runner: Runner, tmp_path: Path, files: dict[str, str], given: dict[str, str], code: str, status: int
) -> None:
    job = runner.use(write_tree(tmp_path, files), **given)
    assert (job.status, job.outputs["exit-code"], job.outputs["findings"]) == (status, code, "1")
    wanted = ["error", "warning"] if files["a.py"] == BROKEN else ["warning"]
    assert sorted(note.level for note in job.annotations) == wanted


def test_what_it_is_told_to_look_at(runner: Runner, workspace: Path) -> None:
    write_tree(workspace, {"src/new.py": "import torch\ntorch.cuda.synchronize()\ntorch.cuda.empty_cache()\n"})
    write_tree(workspace, {"src/third_party/x.py": "import torch\ntorch.cuda.synchronize()\n"})
    (workspace / "src/-").mkdir()
    write_tree(workspace, {"src/-/old.py": "import torch\ntorch.cuda.synchronize()\n"})
    given = {"working_directory": "src", "since": "main", "select": "stream,memory", "ignore": "memory"}
    job = runner.use(
        workspace, paths="new.py\r\n\n  third_party \n-\n", args="--exclude=third_party\n--torch=>=2.4", **given
    )
    assert all("file" in note.properties for note in job.annotations), job.log
    found = [(note.properties["file"], note.properties["title"]) for note in job.annotations]
    assert found == [("src/-/old.py", "stream/synchronize"), ("src/new.py", "stream/synchronize")], job.log


def test_only_new_findings_fail(runner: Runner, workspace: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    ran = cli("check", "--baseline", "known.json", "--write-baseline")
    assert ran.status == 0
    write_tree(workspace, {"new.py": "import torch\ntorch.cuda.synchronize()\n"})
    job = runner.use(workspace, baseline="known.json", suggest="true")
    assert [note.properties["file"] for note in job.annotations] == ["new.py"]
    assert job.outputs["findings"] == "1" and "Found 1 new problem" in job.summary


def snippets() -> list[list[dict[str, Any]]]:
    """The steps of each workflow of docs/ci.md."""
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split("## GitLab")[0]
    found = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)]
    return [each["steps"] if "steps" in each else each["jobs"]["check"]["steps"] for each in found]


@pytest.mark.parametrize("steps", snippets(), ids=["plain", "pull request", "code scanning"])
def test_a_workflow_of_the_docs(runner: Runner, workspace: Path, steps: list[dict[str, Any]]) -> None:
    (mine,) = (step for step in steps if step["uses"].startswith("example/torchmigrate@"))
    given = {name.replace("-", "_"): str(value) for name, value in mine.get("with", {}).items()}
    if "since" in given:
        assert given["since"] == "${{ github.event.pull_request.base.sha }}"
        given["since"] = git(workspace, "rev-parse", "HEAD").strip()
        write_tree(workspace, {given["baseline"]: '{"format": "torchmigrate-baseline", "version": 1, "findings": []}'})
        write_tree(workspace, {"new.py": "import torch\ntorch.cuda.synchronize()\n"})
    job = runner.use(workspace, **given)
    assert job.status == (0 if given.get("fail_on") == "error" else 1), job.log
    assert job.outputs["findings"] == ("1" if "since" in given else "4")
    for name in re.findall(r"steps\.torchmigrate\.outputs\.([\w-]+)", str(steps)):
        assert Path(job.outputs[name]).is_file()


# ---- whom it does not trust

HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`; touch pwned; 'touch pwned' \"$(touch pwned)\" && touch pwned | touch pwned #",
    "--output=pwned",
    "x\n::error::forged\nexit-code=0\nEOF\n--also=text=pwned",
    "../x\\y %0A ${IFS} * ? ~ é 🎉",
)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        *((["paths", "sarif_file"], text) for text in HOSTILE),
        *((["select", "ignore", "since", "baseline"], text) for text in HOSTILE[1:4]),
        (["working_directory"], HOSTILE[1]),  # these two fail before the rest is looked at
        (["fail_on"], HOSTILE[3]),
    ],
)
def test_an_input_is_data(runner: Runner, workspace: Path, names: list[str], text: str) -> None:
    before = sorted(path.name for path in workspace.rglob("*") if ".git" not in path.parts)
    job = runner.use(workspace, **dict.fromkeys(names, text))
    after = sorted(path.name for path in workspace.rglob("*") if ".git" not in path.parts)
    made = Path(job.outputs["sarif"]).name if job.outputs["sarif"] else None
    assert [name for name in after if name != made] == before
    assert "Traceback" not in job.log and "internal error" not in job.log
    assert "forged" not in [note.message for note in job.annotations]
    assert job.status == 2 and job.outputs["exit-code"] == "2", job.log
    assert any(note.level == "error" for note in job.annotations)
    assert job.summary.startswith("## torchmigrate\n\n")


@pytest.mark.parametrize("python", ["$(touch pwned)", "--version", "false"])
def test_a_python_that_is_none(runner: Runner, workspace: Path, tmp_path: Path, python: str) -> None:
    job = Runner(runner.action, tmp_path).use(workspace, python=python)
    assert job.status == 2 and not (workspace / "pwned").exists()
    (note,) = job.annotations
    assert note.level == "error" and "no Python 3.11 or newer here" in note.message and python not in job.log


@pytest.mark.skipif(sys.platform == "win32", reason="names that Windows cannot have")
def test_names_of_files_are_no_commands(runner: Runner, tmp_path: Path) -> None:
    bad = "x\n::error::forged\n::set-output name=findings::0\n.py"
    names = [bad, f"sub/{bad}", "%0A::error::forged.py", "a,line=1::b.py"]
    write_tree(tmp_path, dict.fromkeys(names, BROKEN) | {f"{bad[:-3]}2.py": "import torch\ntorch.cuda.synchronize()\n"})
    job = runner.use(tmp_path, verbose="true", suggest="true")
    assert job.status == 2 and job.outputs["exit-code"] == "2" and job.outputs["findings"] == "1"
    assert Counter(note.level for note in job.annotations) == {"error": 4, "warning": 1}
    assert {note.properties["file"] for note in job.annotations if note.level == "error"} == set(names)


def test_an_error_is_text_in_the_summary(runner: Runner, workspace: Path) -> None:
    """An input may come from a pull request; the summary is read as Markdown, with HTML in it."""
    job = runner.use(workspace, working_directory="<img src=x> [click](javascript:1) @everyone")
    assert job.status == 2
    assert "\\<img src=x\\> \\[click\\](javascript:1) \\@everyone" in job.summary, job.summary


def test_code_of_the_repository_does_not_run(runner: Runner, planted: Path) -> None:
    """Neither now nor when the action was installed, by the fixture."""
    job = runner.use(planted, {"PYTHONPATH": str(planted), "PYTHONSTARTUP": str(planted / "venv.py")})
    assert job.status == 0 and not (planted / "pwned").exists(), job.log
    shown = {**os.environ, "PYTHONPATH": str(planted)}  # it would be
    subprocess.run([sys.executable, "-m", "venv", "--help"], cwd=planted, env=shown, check=False, capture_output=True)
    assert (planted / "pwned").exists()
