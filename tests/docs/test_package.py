"""What is built and installed: no torch, all that a run needs, the same bytes each time."""

from __future__ import annotations

import marshal
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from conftest import ROOT, build, git, python
from packaging.requirements import Requirement

from torchmigrate.rules import packs

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Each module in its turn as the first one: a circular import shows, too.
IMPORT_ALL = """
import importlib, pathlib, sys
sys.modules["torch"] = None
for path in sorted(pathlib.Path("torchmigrate").rglob("*.py")):
    parts = path.with_suffix("").parts
    if path.name == "runtime.py" or "verify" in parts:
        continue
    name = ".".join(parts).removesuffix(".__init__")
    importlib.import_module(name)
    print(name)
"""


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


@pytest.fixture(scope="module")
def sdist(built: Path) -> tarfile.TarFile:
    return tarfile.open(next(built.glob("*.tar.gz")))


def description(wheel: zipfile.ZipFile) -> str:
    """What an index page shows."""
    (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name)).get_payload()


def test_the_wheel_has_the_rules_the_helper_and_the_types(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    rules = {f"torchmigrate/data/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "rules").rglob("*.toml")}
    assert rules and rules <= names
    assert {"torchmigrate/runtime.py", "torchmigrate/py.typed", "torchmigrate/__main__.py"} <= names
    assert "torchmigrate/formats/portability/page.css" in names
    assert {f"torchmigrate/data/{name}.toml" for name in ("backends", "libraries", "names")} <= names
    assert {f"torchmigrate/data/schemas/{name}.json" for name in ("config", "pyproject", "rule", "catalog")} <= names


def test_the_wheel_has_all_modules_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "torchmigrate").rglob("*.py")}
    found = {name for name in wheel.namelist() if name.endswith(".py")}
    assert found == ours
    assert not [n for n in wheel.namelist() if n.startswith(("tests", "fixtures", "docs")) or "__pycache__" in n]


def test_the_wheels_metadata(wheel: zipfile.ZipFile) -> None:
    (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(wheel.read(name))
    required = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    names = {re.match(r"[\w-]+", r).group().lower() for r in required}
    assert names == {"gitpython", "libcst", "packaging", "platformdirs", "rich", "typer"}
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(n.endswith("licenses/LICENSE") for n in wheel.namelist())


def test_an_index_page_has_no_links_into_the_repository(wheel: zipfile.ZipFile) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    link = re.compile(r"\[[^\]]+\]\((?!https?://|#)[^)]*\)")
    shown = description(wheel)
    assert len(link.findall(readme)) > 3
    assert link.findall(shown) == []
    assert shown.strip() == re.sub(r"!?\[([^\]]+)\]\((?!https?://|#)[^)]*\)", r"\1", readme).strip()


def test_twine_accepts_both(built: Path) -> None:
    pytest.importorskip("twine", reason="pip install 'torchmigrate[test]'")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2, done.stdout


def test_the_sdist_is_the_repository(sdist: tarfile.TarFile) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    ours = {name for name in listed if name and (ROOT / name).exists()}
    packed = {member.name.partition("/")[2] for member in sdist.getmembers()}
    assert packed == ours | {"PKG-INFO"}
    modes = {member.name.partition("/")[2]: member.mode & 0o111 for member in sdist.getmembers()}
    assert modes[".ci/run"]


def test_two_builds_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    again = build(ROOT, tmp_path)
    assert {file.name for file in again.iterdir()} == {file.name for file in built.iterdir()}
    for first in built.iterdir():
        assert (again / first.name).read_bytes() == first.read_bytes(), f"{first.name} differs"


def test_the_sdist_gives_the_same_wheel(built: Path, sdist: tarfile.TarFile, tmp_path: Path) -> None:
    sdist.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    (first,) = built.glob("*.whl")
    assert (build(source, tmp_path / "dist") / first.name).read_bytes() == first.read_bytes()


def test_a_run_from_the_wheel_finds_its_rules(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from torchmigrate.rules import packs; print(packs.builtin())"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path / "site")], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.stdout.strip() == str(tmp_path / "site" / "torchmigrate" / "data" / "rules"), ran.stderr


def test_dependencies_have_no_torch() -> None:
    assert not [need for need in PROJECT["dependencies"] if "torch" in need]


def test_torch_is_pinned_exactly_where_it_is_wanted() -> None:
    for extra in ("test", "verify"):
        needs = PROJECT["optional-dependencies"][extra]
        assert [need for need in needs if Requirement(need).name == "torch"] == ["torch==2.13.0"]


def test_the_command_line_imports_no_torch() -> None:
    ran = python("import sys, torchmigrate.cli.app; print([m for m in sys.modules if m.split('.')[0] == 'torch'])")
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


def test_the_compiled_rules_of_the_wheel_are_its_toml_files(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    assert (tmp_path / "torchmigrate" / "data" / packs.COMPILED).read_bytes() == packs.compile_builtin()
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from torchmigrate.rules import packs
fast, used = packs.load(cases=False), "torchmigrate.rules.reader" not in sys.modules
packs._compiled = lambda files: {}
slow = packs.load(cases=False)
same = all(getattr(fast, field) == getattr(slow, field) for field in ("rules", "claimed", "names", "globs"))
print(used, same, len(fast.rules) > 50)
"""
    assert python(code, str(tmp_path)).stdout == "True True True\n"
    changed = next((tmp_path / "torchmigrate" / "data" / "rules" / "device").glob("*.toml"))
    changed.write_bytes(changed.read_bytes().replace(b"summary", b"# edited\nsummary", 1))
    assert python(code, str(tmp_path)).stdout == "False True True\n"
    damaged = tmp_path / "torchmigrate" / "data" / packs.COMPILED
    for data in (b"", b"\x00", marshal.dumps((1, 2, 3), 2), damaged.read_bytes()[:5000]):
        damaged.write_bytes(data)
        assert python(code, str(tmp_path)).stdout == "False True True\n"
