"""The layout of the package and of its tests: small folders that say what they hold, and tests where one looks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "torchmigrate"
TESTS = ROOT / "tests"
MODULES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in MODULES})
MOST_IN_A_FOLDER = 12
MOST_MODULES = 220
TOP = {"__init__.py", "__main__.py", "runtime.py", "py.typed"}
NO_PACKAGE = {PACKAGE / "verify" / "simulated" / "site"}  # a folder on sys.path of verified programs
# Folders of tests that mirror a folder of the package, and those that do not.
MIRRORED = {folder.name for folder in TESTS.iterdir() if (PACKAGE / folder.name / "__init__.py").is_file()}
OTHERS = {"architecture", "attack", "docs", "fuzz", "mutation", "runtime", "support"} | ({"worlds"} - MIRRORED)
# Tests of a promise that several modules keep, or of no module: folder -> what comes after `test_`.
PROMISES = {
    "apply": {"faults"},
    "cli": {
        "bad_input",
        "before_commit",
        "dry_run",
        "environments",
        "extra_reports",
        "hostile_project",
        "messages",
        "notebooks",
        "pre_commit",
        "rules_and_explain",
        "terminal",
    },
    "engine": {"checking", "fixtures", "invariants", "linear_time"},
    "fixers": {"advice_already_followed", "comments", "default_tensor_type", "fixers", "left_alone"},
    "fleet": {"fleet"},
    "formats": {"report_formats"},
    "helper": {"own_helper"},
    "lsp": {"server"},
    "project": {"build_files", "git_scopes"},
    "rewriting": {"device_only_findings", "migrated_notebook"},
    "rules": {"compile_claims", "rule_claims", "shipped_rules"},
    "source": {"notebook_layouts"},
    "surveys": {"catalog_command", "catalog_rows", "catalog_usage"},
    "syntax": {"unparsable_files"},
    "worlds": {"decisions", "oracle"},
    "verify": {"on_hardware", "weak_spots", "broken_ports", "fixtures_simulated", "printed_numbers", "process_end"},
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_package_has_few_modules() -> None:
    assert len(MODULES) <= MOST_MODULES


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_has_few_modules(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_IN_A_FOLDER, modules


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder not in NO_PACKAGE], ids=name)
def test_a_folder_says_what_it_holds(folder: Path) -> None:
    """The first line of its docstring is a sentence."""
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert said.partition("\n")[0].endswith(".")


def test_the_top_of_the_package_holds_folders() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == TOP


def test_the_tests_lie_in_folders() -> None:
    assert [path.name for path in TESTS.glob("test_*.py")] == []
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("*.py") if path.parent != TESTS}
    assert folders - MIRRORED == OTHERS


@pytest.mark.parametrize("folder", sorted(MIRRORED))
def test_a_test_file_is_named_for_what_it_tests(folder: str) -> None:
    files = [path for path in (TESTS / folder).rglob("test_*.py") if "simulated" not in path.parts]
    modules = {path.stem for path in (PACKAGE / folder).rglob("*.py")}
    told = {path.stem.removeprefix("test_") for path in files}
    assert told - modules <= PROMISES.get(folder, set())
