"""`--also`: more than one report of a run; and `diff`, the layout that is nothing but a patch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, git, write_tree

Cli = Callable[..., Ran]
FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown", "diff")
FILES = {"a.py": "import torch\n\ntorch.cuda.empty_cache()\n", "b.py": "import torch\nimport apex\n", "c.py": "x = 1\n"}


@pytest.fixture
def project(here: Path) -> Path:
    write_tree(here, FILES)
    return here


@pytest.mark.parametrize("command", [("check",), ("apply", "--dry-run")])
def test_each_report_is_as_it_is_alone(project: Path, cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    layouts = [name for name in FORMATS if command != ("check",) or name != "diff"]
    ran = cli(*command, *(f"--also={name}={tmp_path / name}" for name in layouts))
    assert ran.status == 1 and ran.raw == cli(*command).raw
    for name in layouts:
        assert (tmp_path / name).read_bytes() == cli(*command, "--output-format", name).raw, name


def test_after_an_apply_each_tells_what_it_tells_of_one(project: Path, cli: Cli, tmp_path: Path) -> None:
    names = ("json", "github", "sarif", "diff")
    ran = cli("apply", *(f"--also={name}={tmp_path / name}" for name in names))
    assert ran.status == 0 and ran.last.startswith("Rewrote 1 of 3 files and added accel.py")
    assert json.loads((tmp_path / "json").read_bytes())["summary"]["applied"] == 1
    assert (tmp_path / "github").read_text().count("::warning") == 1  # what is left: apex
    assert len(json.loads((tmp_path / "sarif").read_bytes())["runs"][0]["results"]) == 1
    write_tree(project, FILES)
    (project / "accel.py").unlink()
    git(project, "init", "-q")
    git(project, "apply", str(tmp_path / "diff"))
    assert "accel.empty_cache()" in (project / "a.py").read_text() and (project / "accel.py").exists()


def test_a_run_that_is_remembered_has_fixes_too(here: Path, cli: Cli, tmp_path: Path) -> None:
    """Only larger projects are remembered, once they have not changed for a while."""
    names = [f"f{i}.py" for i in range(60)]
    write_tree(here, dict.fromkeys(names, "import torch\n\ntorch.cuda.empty_cache()\n"))
    for name in names:
        os.utime(here / name, (1e9, 1e9))
    for _ in range(2):
        assert cli("check", f"--also=sarif={tmp_path / 'sarif'}").status == 1
        (run,) = json.loads((tmp_path / "sarif").read_bytes())["runs"]
        assert len(run["results"]) == 60 and all(result["fixes"] for result in run["results"])
        assert cli("check").status == 1


def test_a_diff_alone_is_all_of_it(project: Path, cli: Cli) -> None:
    ran = cli("apply", "--dry-run", "--output-format", "diff")
    assert ran.out.startswith("--- a/a.py\n" if ran.out[4] == "a" else "--- /dev/null\n")
    assert {line[:1] for line in ran.out.splitlines()} <= set("-+@ ")
    assert "apex" not in ran.out and "1 needs you" in ran.last
    write_tree(project, {"a.py": "x = 1\n"})
    assert cli("apply", "--dry-run", "--output-format", "diff").out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--also", "junit"), "--also junit: must be FORMAT=FILE"),
        (("--also", "junit="), "--also junit=: must be FORMAT=FILE"),
        (("--also", "jnuit=x"), "--also jnuit=x: no such format: jnuit\nhelp: did you mean `junit`?"),
        (("--also", "xyz=x"), "--also xyz=x: no such format: xyz\nhelp: known: text, concise, json"),
        (("--also", "junit=x", "--also", "json=./x"), "two reports would go to x\n"),
        (("-o", "x", "--also", "json=x"), "two reports would go to x\n"),
        (("--also", "diff=x"), "`check` has no diff\nhelp: `torchmigrate apply --dry-run --output-format diff`"),
        (("--output-format", "diff"), "`check` has no diff\n"),
        (("--also", "json=no/such/x"), "cannot write no/such/x: no such file or directory"),
    ],
)
def test_what_it_refuses(project: Path, cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    ran = cli("check", *arguments)
    assert ran.status == 2 and f"error: {message}" in ran.err
    assert not (project / "x").exists()
