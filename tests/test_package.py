"""What is installed: no torch, and in the wheel all that a run needs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from conftest import ROOT, python

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Each module in its turn as the first one: a circular import shows, too.
IMPORT_ALL = """
import importlib, pathlib, sys
sys.modules["torch"] = None
for path in sorted(pathlib.Path("torchmigrate").rglob("*.py")):
    parts = path.with_suffix("").parts
    if path.name == "runtime.py" or "verify" in parts:
        continue
    for name in [n for n in sys.modules if n.partition(".")[0] == "torchmigrate"]:
        del sys.modules[name]
    name = ".".join(parts).removesuffix(".__init__")
    importlib.import_module(name)
    print(name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling: pip install 'torchmigrate[test]'")
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_wheel_has_the_rules_the_helper_and_the_types(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    rules = {f"torchmigrate/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "rules").rglob("*.toml")}
    assert rules and rules <= names
    assert {"torchmigrate/runtime.py", "torchmigrate/py.typed", "torchmigrate/__main__.py"} <= names
    assert "torchmigrate/report/portability/page.css" in names


def test_the_wheel_has_all_modules_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "torchmigrate").rglob("*.py")}
    found = {name for name in wheel.namelist() if name.endswith(".py")}
    assert found == ours
    assert not [n for n in wheel.namelist() if n.startswith(("tests", "fixtures", "docs")) or "__pycache__" in n]


def test_the_wheels_metadata(wheel: zipfile.ZipFile) -> None:
    (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(wheel.read(name))
    required = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert sorted(re.match(r"[\w-]+", r).group().lower() for r in required) == ["gitpython", "libcst", "rich", "typer"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(n.endswith("licenses/LICENSE") for n in wheel.namelist())


def test_a_run_from_the_wheel_finds_its_rules(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from torchmigrate import pack; print(pack.builtin())"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path / "site")], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.stdout.strip() == str(tmp_path / "site" / "torchmigrate" / "rules"), ran.stderr


def test_dependencies_have_no_torch() -> None:
    assert not [need for need in PROJECT["dependencies"] if "torch" in need]


def test_torch_is_pinned_exactly_where_it_is_wanted() -> None:
    for extra in ("test", "verify"):
        assert [n for n in PROJECT["optional-dependencies"][extra] if n.startswith("torch")] == ["torch==2.13.0"]


def test_the_command_line_imports_no_torch() -> None:
    ran = python("import sys, torchmigrate.cli; print(sorted(m for m in sys.modules if m.split('.')[0] == 'torch'))")
    assert ran.stdout.strip() == "[]", ran.stderr


def test_every_module_but_the_helper_does_without_torch() -> None:
    ran = python(IMPORT_ALL)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) > 40


def test_the_helper_is_what_needs_torch() -> None:
    ran = python("import sys; sys.modules['torch'] = None; import torchmigrate.runtime")
    assert ran.returncode == 1
    assert "import of torch halted" in ran.stderr


def test_types_are_declared() -> None:
    assert (ROOT / "torchmigrate" / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]
