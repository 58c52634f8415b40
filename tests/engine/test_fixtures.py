"""The projects under fixtures/: originals die of CUDA, migrations are as expected byte for byte, and train."""

import importlib.util
import re
from pathlib import Path

import pytest
from fixture_projects import (
    FIXTURES,
    SPEC,
    apply,
    assert_kept,
    assert_losses,
    assert_trains,
    copy_project,
    expected_changes,
    read_tree,
    run,
    text_shape,
)

each_fixture = pytest.mark.parametrize("name", SPEC)
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


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
