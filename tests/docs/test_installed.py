"""The wheel in a fresh environment: the oldest Python with the lowest dependencies, and the newest Python here with
the newest ones. Skipped for interpreters that this machine lacks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, git
from fixture_projects import expected_changes, read_tree

from torchmigrate import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FLOORS = [need.replace(">=", "==") for need in PROJECT["dependencies"]]
NAMED = [line.rpartition(":: ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
RULE = """
summary = "`warm_up()` wakes CUDA alone"
safety = "display"
why = "The others wake by themselves."

[[rewrite]]
match = "torch.cuda.warm_up()"

[[case]]
title = "an example"
before = '''
import torch
torch.cuda.warm_up()
'''
finding = true

[[case]]
title = "another's"
before = '''
import other as torch
torch.cuda.warm_up()
'''
finding = false
"""
OFFLINE = re.compile(r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|ProxyError")


def interpreters(version: str) -> Iterator[str]:
    """Where Pythons of this version may be: this one, on the path, pyenv's."""
    yield sys.executable
    yield f"python{version}"
    for found in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True):
        yield str(found)


def is_version(interpreter: str, version: str) -> bool:
    """A shim may be there and lead nowhere."""
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True)
    except OSError:
        return False
    return done.stdout.strip() == version


@dataclass(frozen=True)
class Installed:
    """A fresh environment with the wheel in it."""

    python: Path
    version: str

    def run(self, *arguments: str, cwd: Path, status: int) -> subprocess.CompletedProcess[str]:
        """The console script, away from this checkout."""
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "COV_CORE", "COVERAGE"))}
        script = self.python.with_name("torchmigrate" + (".exe" if sys.platform == "win32" else ""))
        done = subprocess.run(
            [str(script), *arguments], cwd=cwd, env=kept, capture_output=True, text=True, encoding="utf-8"
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module", params=["oldest", "newest"])
def installed(request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    wanted = NAMED[:1] if request.param == "oldest" else NAMED[:0:-1]
    usable = ((i, version) for version in wanted for i in interpreters(version) if is_version(i, version))
    interpreter, version = next(usable, (None, None))
    if interpreter is None or version is None:
        pytest.skip(f"no Python {' or '.join(wanted)} on this machine")
    folder = tmp_path_factory.mktemp(request.param)
    (wheel,) = built.glob("*.whl")
    subprocess.run([interpreter, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (python,) = (folder / "venv").glob("[bS]*/python" + (".exe" if sys.platform == "win32" else ""))
    install(python, str(wheel), *(FLOORS if request.param == "oldest" else ()))
    return Installed(python, version)


def install(python: Path, *what: str) -> None:
    """With this environment's pip, so that none has to be put there."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", *what]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Under git, as projects are."""
    for name in ("cnn", "notebook"):
        shutil.copytree(ROOT / "fixtures" / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "as it was")
    return tmp_path


def files(project: Path) -> dict[str, bytes]:
    return {name: data for name, data in read_tree(project).items() if not name.startswith(".git/")}


def test_it_says_its_version_and_brings_no_torch(installed: Installed, tmp_path: Path) -> None:
    assert installed.run("--version", cwd=tmp_path, status=0).stdout == f"torchmigrate {__version__}\n"
    code = "import importlib.util, sys; print('%d.%d' % sys.version_info[:2], importlib.util.find_spec('torch'))"
    done = subprocess.run([str(installed.python), "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == [installed.version, "None"]


def test_it_rewrites_as_it_does_here_and_takes_it_back(installed: Installed, project: Path) -> None:
    original = files(project)
    patch = installed.run("apply", "--dry-run", "cnn", cwd=project, status=1).stdout
    assert files(project) == original
    (project.parent / "patch").write_bytes(patch.encode())
    git(project, "apply", str(project.parent / "patch"))
    assert files(project) == original | {f"cnn/{name}": data for name, data in expected_changes("cnn").items()}

    git(project, "checkout", "-q", ".")
    git(project, "clean", "-qfd")
    for name in ("cnn", "notebook"):
        installed.run("apply", name, cwd=project, status=0)
        after = original | {f"{name}/{path}": data for path, data in expected_changes(name).items()}
        assert files(project) == after
        installed.run("undo", name, cwd=project, status=0)
        assert files(project) == original


def test_it_reads_notebooks_and_tests_rules(installed: Installed, project: Path) -> None:
    found = json.loads(installed.run("check", "notebook", "--output-format=json", cwd=project, status=1).stdout)
    assert {finding["file"] for finding in found["findings"]} == {"notebook/train.ipynb"}
    assert all(finding["cell"] for finding in found["findings"])
    rule = project / "rules" / "mine" / "warm-up.toml"
    rule.parent.mkdir(parents=True)
    rule.write_text(RULE, encoding="utf-8")
    done = installed.run("rules", "test", "rules", cwd=project, status=0)
    assert done.stderr.startswith("2 of 2 cases")
