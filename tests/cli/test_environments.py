"""Where it is run: locales, users without a home, installs that cannot be written to, systems that do not fork."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conftest import ROOT, Ran, git, planned, write_tree

from torchmigrate.project.helper_parts import Form, vendored
from torchmigrate.rules import packs

Cli = Callable[..., Ran]
SCRIPT = "import torch\n\nx = torch.zeros(2).cuda()  # größe\n"
MOVED = "import torch\nimport accel\n\nx = torch.zeros(2, device=accel.device())  # größe\n"
AS_IT_IS = {"PYTHONPATH": str(ROOT)}
# As in a container whose user is in no passwd file.
HOMELESS = """
import os, pwd, sys
def getpwuid(uid):
    raise KeyError(uid)
pwd.getpwuid = getpwuid
os.environ.pop("HOME", None)
for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
    os.environ.pop(name, None)
from torchmigrate.cli.app import main
main()
"""


def run(here: Path, *arguments: str, code: str = "", **environment: str | None) -> subprocess.CompletedProcess[bytes]:
    """One command line in a process of its own; None takes a variable away."""
    changed = {**os.environ, **AS_IT_IS, **environment}
    kept = {name: value for name, value in changed.items() if value is not None}
    command = [sys.executable, *(("-c", code) if code else ("-m", "torchmigrate")), *arguments]
    return subprocess.run(command, cwd=here, env=kept, capture_output=True, check=False)


def tree(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


SURROUNDINGS: Mapping[str, Mapping[str, str | None]] = {
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "poor terminal": {"COLUMNS": "20", "TERM": "dumb", "LANG": None},
    "no git on the path": {"PATH": "/nonexistent"},
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_same_is_written_everywhere(name: str, tmp_path: Path) -> None:
    here = write_tree(tmp_path / "projekt", {"ordner ä/größe.py": SCRIPT})
    ran = run(here, "apply", **SURROUNDINGS[name])
    assert ran.returncode == 0, ran.stderr
    assert tree(here) == {"ordner ä/größe.py": MOVED.encode(), "ordner ä/accel.py": vendored({"device": ~Form.ANY})}
    assert run(here, "undo", **SURROUNDINGS[name]).returncode == 0
    assert tree(here) == {"ordner ä/größe.py": SCRIPT.encode()}


def test_a_closed_pipe_is_no_error_to_speak_of(here: Path) -> None:
    write_tree(here, {f"{n}.py": SCRIPT for n in range(3)})
    words = [sys.executable, "-m", "torchmigrate", "apply", "-n", "."]
    with subprocess.Popen(
        words, cwd=here, env={**os.environ, **AS_IT_IS}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout and started.stderr
        started.stdout.close()
        assert b"Traceback" not in (err := started.stderr.read())
        assert b"error" not in err
    assert started.returncode == 1


# ---- users


@pytest.mark.skipif(sys.platform == "win32", reason="no passwd file")
def test_without_a_home_nothing_is_written_that_could_not_be_undone(here: Path) -> None:
    (here / "a.py").write_text(SCRIPT, encoding="utf-8")
    ran = run(here, "apply", code=HOMELESS)
    assert ran.returncode == 2
    assert b"cannot save the originals, so nothing was written" in ran.stderr
    assert b"XDG_STATE_HOME" in ran.stderr
    assert tree(here) == {"a.py": SCRIPT.encode()}
    ran = run(here, "undo", code=HOMELESS)
    assert (ran.returncode, ran.stderr[:21]) == (2, b"error: nothing to und")


@pytest.mark.skipif(sys.platform == "win32", reason="no passwd file")
def test_without_a_home_git_has_the_originals(here: Path) -> None:
    (here / "a.py").write_text(SCRIPT, encoding="utf-8")
    git(here, "init", "-q")
    git(here, "add", "-A")
    git(here, "commit", "-qm", "x")
    ran = run(here, "apply", code=HOMELESS)
    assert ran.returncode == 0, ran.stderr
    assert b"works until" in ran.stderr  # the originals lie in the system's folder for temporary files
    assert set(tree(here)) == {"a.py", "accel.py"}
    assert run(here, "undo", code=HOMELESS).returncode == 0
    assert tree(here) == {"a.py": SCRIPT.encode()}


def test_a_repository_that_git_does_not_trust_is_told_of(here: Path, cli: Cli) -> None:
    """git refuses one of another user; GIT_TEST_ASSUME_DIFFERENT_OWNER makes this one such."""
    (here / "a.py").write_text(SCRIPT, encoding="utf-8")
    git(here, "init", "-q")
    ran = run(here, "apply", GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert ran.returncode == 2, ran.stderr
    assert f"error: git tells nothing of {here}".encode() in ran.stderr and b"dubious ownership" in ran.stderr
    assert tree(here) == {"a.py": SCRIPT.encode()}
    ran = run(here, "apply", "--allow-dirty", GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert ran.returncode == 0, ran.stderr
    assert f"note: git tells nothing of {here}".encode() in ran.stderr
    assert b"not in git" not in ran.stderr
    assert run(here, "undo", GIT_TEST_ASSUME_DIFFERENT_OWNER="1").returncode == 0
    assert tree(here) == {"a.py": SCRIPT.encode()}


@pytest.mark.skipif(sys.platform == "win32", reason="no umask")
def test_modes_are_the_users(here: Path) -> None:
    (here / "a.py").write_text(SCRIPT, encoding="utf-8")
    (here / "a.py").chmod(0o640)
    before = os.umask(0o077)
    try:
        assert run(here, "apply").returncode == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((here / "accel.py").stat().st_mode) == 0o600
    assert stat.S_IMODE((here / "a.py").stat().st_mode) == 0o640


# ---- installs and systems


@pytest.mark.skipif(sys.platform == "win32", reason="directories have no read-only mode")
def test_an_install_that_cannot_be_written_to(tmp_path: Path, here: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(ROOT / "torchmigrate", site / "torchmigrate", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(packs.builtin(), site / "torchmigrate" / "data" / "rules")
    folders = [site, *(path for path in site.rglob("*") if path.is_dir())]
    installed = tree(site)
    (here / "a.py").write_text(SCRIPT, encoding="utf-8")
    for folder in folders:
        folder.chmod(0o555)
    try:
        ran = run(here, "apply", PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1")  # root writes to such folders
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert ran.returncode == 0, ran.stderr
    assert tree(site) == installed
    assert set(tree(here)) == {"a.py", "accel.py"}


def test_processes_that_are_not_forked_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, and on Windows."""
    shutil.copytree(ROOT / "fixtures" / "package", tmp_path / "package")
    alone = planned(tmp_path)
    asked: list[str] = []
    get_context = multiprocessing.get_context

    def context(method: str) -> object:
        asked.append(method)
        return get_context(method)

    monkeypatch.setattr("torchmigrate.engine.worker.POOL_BYTES", 0)
    monkeypatch.setattr(multiprocessing, "get_context", context)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert planned(tmp_path, jobs=2) == alone
    assert asked == ["spawn"]
