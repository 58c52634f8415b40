"""The projects under fixtures/: originals die of CUDA, migrations are as expected byte for byte, and train."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from torchmigrate.project.helper_file import runtime_source

REPO = Path(__file__).resolve().parent.parent
FIXTURES = REPO / "fixtures"
SPEC: dict[str, Any] = tomllib.loads((FIXTURES / "fixtures.toml").read_text(encoding="utf-8"))
DEFAULTS: dict[str, Any] = SPEC.pop("defaults")
BOM = b"\xef\xbb\xbf"
Files = dict[str, bytes]

each_fixture = pytest.mark.parametrize("name", SPEC)
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


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
    done = start([sys.executable, "-m", "torchmigrate", "apply", *options, str(project)], REPO, homes)
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


def test_every_project_is_described() -> None:
    folders = {path.name for path in FIXTURES.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))}
    assert folders - {"expected"} == set(SPEC)
    expected = FIXTURES / "expected"
    assert {path.name for path in expected.iterdir()} <= set(SPEC) if expected.is_dir() else True


def test_the_awkward_files_are_still_awkward() -> None:
    """An editor, or git, that normalizes them would take the point out of them."""
    assert text_shape((FIXTURES / "lstm/data.py").read_bytes()) == (False, True, True)
    assert text_shape((FIXTURES / "cli/main.py").read_bytes()) == (False, True, True)
    assert text_shape((FIXTURES / "resnet/utils.py").read_bytes()) == (True, False, True)
    assert text_shape((FIXTURES / "gan/models.py").read_bytes()) == (False, False, False)


@each_fixture
def test_kept_text_is_in_the_original(name: str) -> None:
    for path, texts in SPEC[name]["keeps"].items():
        original = (FIXTURES / name / path).read_bytes().decode()
        assert [text for text in texts if text not in original] == []


@needs_torch
@each_fixture
def test_original(name: str, tmp_path: Path) -> None:
    project = copy_project(name, tmp_path)
    for step in SPEC[name]["run"]:
        match step["original"]:
            case {"dies": regex}:
                done = run(step["command"], project)
                assert done.returncode != 0, f"{step['command']} needs no CUDA:\n{done.stdout}"
                assert re.search(regex, done.stderr), done.stderr
            case {"runs": _}:
                done = run(step["command"], project)
                assert done.returncode == 0, done.stderr
                assert_losses(name, step, done.stdout)
            case {"skipped": _}:
                pass
            case other:
                pytest.fail(f"fixtures.toml: {name}: original = {other}")


@each_fixture
def test_apply_gives_the_expected_tree_and_then_nothing(name: str, tmp_path: Path) -> None:
    changes = expected_changes(name)
    project = copy_project(name, tmp_path)
    original = read_tree(project)
    report = apply(project)
    migrated = read_tree(project)
    assert {path: content for path, content in migrated.items() if original.get(path) != content} == changes, report
    assert original.keys() <= migrated.keys()

    again = apply(project)
    assert read_tree(project) == migrated, again


@each_fixture
def test_expected_tree_keeps_what_is_not_ours(name: str) -> None:
    changes = expected_changes(name)
    original = read_tree(FIXTURES / name)
    assert changes, "a fixture that needs no migration"
    assert [path for path, content in changes.items() if original.get(path) == content] == []
    assert_kept(name, original, original | changes)


@needs_torch
@each_fixture
def test_expected_tree_trains_on_the_cpu(name: str, tmp_path: Path) -> None:
    changes = expected_changes(name)
    project = copy_project(name, tmp_path)
    for path, content in changes.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_bytes(content)
    assert_trains(name, project)


@needs_torch
@each_fixture
def test_native_style_passes_the_same_gates(name: str, tmp_path: Path) -> None:
    """It is the same program: what torch.accelerator cannot say without a device, the helper says."""
    project = copy_project(name, tmp_path)
    original = read_tree(project)
    style = ("--style", "native", "--torch", ">=2.13")
    report = apply(project, *style)
    migrated = read_tree(project)
    assert_kept(name, original, migrated)
    assert b"torch.accelerator." in b"".join(migrated[path] for path in original), report
    assert original.keys() <= migrated.keys()

    again = apply(project, *style)
    assert read_tree(project) == migrated, again
    assert_trains(name, project)
