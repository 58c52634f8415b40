"""The projects under fixtures/: their description, copies of them, and what is expected of them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import warm_torch
from conftest import ROOT

from torchmigrate.cli import app

FIXTURES = ROOT / "fixtures"
SPEC: dict[str, Any] = tomllib.loads((FIXTURES / "fixtures.toml").read_text(encoding="utf-8"))
DEFAULTS: dict[str, Any] = SPEC.pop("defaults")
SPAWNS = {"ddp"}
BOM = b"\xef\xbb\xbf"
Files = dict[str, bytes]


def read_tree(root: Path) -> Files:
    """Relative path -> bytes, without caches and whatever the tool keeps for undo."""
    found = {p.relative_to(root): p for p in root.rglob("*") if p.is_file()}
    ours = {n: p for n, p in found.items() if "__pycache__" not in n.parts and not n.parts[0].startswith(".")}
    return {name.as_posix(): path.read_bytes() for name, path in ours.items()}


def expected_changes(name: str) -> Files:
    folder = FIXTURES / "expected" / name
    if not folder.is_dir():
        pytest.skip(f"fixtures/expected/{name} is not there yet: python fixtures/regenerate.py {name}")
    return read_tree(folder)


def copy_project(name: str, parent: Path) -> Path:
    """Without what a run in place left behind: some of them would resume from it."""
    leftovers = shutil.ignore_patterns("__pycache__", "*.pt", "checkpoint")
    return Path(shutil.copytree(FIXTURES / name, parent / name, ignore=leftovers))


def environment(extra: dict[str, str]) -> dict[str, str]:
    ours = ("PYTHONPATH", "TORCH_ACCEL", "COV_CORE", "COVERAGE", "XDG_", "GIT_")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    inherited.pop("PYTEST_CURRENT_TEST", None)
    return inherited | {"PYTHONIOENCODING": "utf-8"} | extra


def run(command: list[str], project: Path) -> subprocess.CompletedProcess[str]:
    """A command of fixtures.toml, by a process that has torch already; one that spawns others, by itself."""
    assert command[0] == "python"
    words = [word.replace("{fixtures}", str(FIXTURES)) for word in command[1:]]
    own = environment(DEFAULTS["env"] | SPEC[project.name].get("env", {}))
    if project.name in SPAWNS:
        given = [sys.executable, *words]
        return subprocess.run(
            given, cwd=project, env=own, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False
        )
    return warm_torch.run(words, project, own, warm_torch.TRAINING)


def apply(project: Path, *options: str) -> str:
    """Migrates in place, in this process; gives what it says."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        status = app.run(("apply", *options, str(project)))
    assert status in (0, 1), said.getvalue()  # 1: findings remain, which is no error
    return said.getvalue()


def assert_losses(name: str, step: dict[str, Any], stdout: str) -> None:
    pattern = SPEC[name].get("loss", DEFAULTS["loss"])
    found = [float(loss) for loss in re.findall(pattern, stdout, re.MULTILINE)]
    assert len(found) == len(step["losses"]), stdout
    tolerance = SPEC[name].get("tolerance", DEFAULTS["tolerance"])
    assert found == pytest.approx(step["losses"], abs=tolerance), f"{name}: {step['command']}"


def text_shape(content: bytes) -> tuple[bool, bool, bool]:
    """BOM, CRLF throughout, final newline."""
    lines = content.count(b"\n")
    return content.startswith(BOM), 0 < lines == content.count(b"\r\n"), content.endswith(b"\n")


def assert_kept(name: str, original: Files, after: Files) -> None:
    """What is not ours: texts about CUDA, and each file's BOM, newlines and end."""
    for path, texts in SPEC[name]["keeps"].items():
        assert [text for text in texts if text not in after[path].decode()] == [], path
    for path in original:
        assert text_shape(after[path]) == text_shape(original[path]), path


def assert_trains(name: str, project: Path) -> None:
    for step in SPEC[name]["run"]:
        done = run(step["command"], project)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_losses(name, step, done.stdout)
