"""The projects under fixtures/: their description, copies of them, and what is expected of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from torchmigrate.project.helper_file import runtime_source

FIXTURES = ROOT / "fixtures"
SPEC: dict[str, Any] = tomllib.loads((FIXTURES / "fixtures.toml").read_text(encoding="utf-8"))
DEFAULTS: dict[str, Any] = SPEC.pop("defaults")
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
    links = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink()}
    return {path: runtime_source() if path in links else raw for path, raw in read_tree(folder).items()}


def copy_project(name: str, parent: Path) -> Path:
    """Without what a run in place left behind: some of them would resume from it."""
    leftovers = shutil.ignore_patterns("__pycache__", "*.pt", "checkpoint")
    return Path(shutil.copytree(FIXTURES / name, parent / name, ignore=leftovers))


def start(command: list[str], cwd: Path, extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    ours = ("PYTHONPATH", "TORCH_ACCEL", "COV_CORE", "COVERAGE")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    environment = inherited | {"PYTHONIOENCODING": "utf-8"} | extra
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
    )


def run(command: list[str], project: Path) -> subprocess.CompletedProcess[str]:
    places = {"python": sys.executable}
    words = [places.get(word, word).replace("{fixtures}", str(FIXTURES)) for word in command]
    return start(words, project, DEFAULTS["env"] | SPEC[project.name].get("env", {}))


def apply(project: Path, *options: str) -> str:
    """Migrates in place. State outside the project (cache, undo) stays beside it, in the test's own folder."""
    homes = {f"XDG_{kind}_HOME": str(project.parent / kind.lower()) for kind in ("CACHE", "STATE", "DATA", "CONFIG")}
    done = start([sys.executable, "-m", "torchmigrate", "apply", *options, str(project)], ROOT, homes)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: findings remain, which is no error
    return done.stdout + done.stderr


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
