"""A run over a tree that has not changed comes out of the cache, the same; a cache that is not right is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Ran

from torchmigrate.base import user_folders
from torchmigrate.config import config_file
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Failed
from torchmigrate.engine import plan_cache, planner
from torchmigrate.engine.planner import Plan
from torchmigrate.project import discovery
from torchmigrate.project.discovery import EVERYTHING, Selection
from torchmigrate.rules import packs

Cli = Callable[..., Ran]
WORTH_IT = plan_cache.WORTH_IT
HARD = "import torch\nx = torch.zeros(1).cuda()\n"
ODD = {"old.py": "print 'cuda'\n", "requirements.txt": "torch==2.3.0+cu118\n", "y.py": "x = 1.0  # plain\n"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Large enough for the cache, whose bound is lower here, and older than this run."""
    monkeypatch.setattr(plan_cache, "WORTH_IT", 5)
    root = tmp_path / "project"
    shutil.copytree(ROOT / "fixtures" / "cnn", root / "cnn")
    shutil.copytree(ROOT / "fixtures" / "notebook", root / "notebook")
    for name, text in {**ODD, **{f"hard{n}.py": HARD for n in range(3)}}.items():
        (root / name).write_text(text)
    age(root)
    return root


def age(root: Path) -> None:
    """As if everything had been written a minute ago."""
    then = time.time() - 60
    for path in root.rglob("*"):
        os.utime(path, (then, then))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes in which the engine really ran."""
    found: list[str] = []
    real = planner.plan

    def counted(paths: object, settings: object, jobs: int, mode: str, *rest: object) -> Plan:
        found.append(mode)
        return real(paths, settings, jobs, mode, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "plan", counted)
    return found


def planned(root: Path, mode: str = "check", only: Selection = EVERYTHING, **known: object) -> Plan:
    settings = config_file.override(config_file.load([root]), **known)
    return plan_cache.plan([root], settings, 1, mode, None, only)


def entries() -> list[Path]:
    return sorted(user_folders.folder().iterdir()) if user_folders.folder().is_dir() else []


def same(one: Plan, other: Plan) -> bool:
    return (one.results, one.files_seen, one.notes, one.others) == (
        other.results, other.files_seen, other.notes, other.others,
    )  # fmt: skip


def test_the_second_run_is_the_first_ones(project: Path, computed: list[str]) -> None:
    first = planned(project)
    assert computed == ["check"] and len(entries()) == 1
    assert {type(r).__name__ for r in first.results} == {"Unchanged", "Failed"} and first.others
    assert any(f.fix and f.fix.needs for r in first.results for f in getattr(r, "findings", ()))
    assert same(planned(project), first)
    assert computed == ["check"]


def test_modes_and_settings_are_apart(project: Path, computed: list[str]) -> None:
    planned(project)
    planned(project, "survey")
    planned(project, ignore=("memory",))
    planned(project, torch=">=2.9")
    planned(project, torch_libraries=("monai",))
    assert computed == ["check", "survey", "check", "check", "check"]
    assert len(entries()) == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "hard0.py").write_text(HARD + "y = x.cuda()\n"),
        lambda root: (root / "new.py").write_text(HARD),
        lambda root: (root / "hard1.py").unlink(),
        lambda root: (root / "hard1.py").rename(root / "hard_one.py"),
        lambda root: (root / "requirements.txt").write_text("torch>=2.6\n"),
        lambda root: (root / "setup.cfg").write_text("[metadata]\nname = x\n"),
        lambda root: (root / "cnn" / "setup.cfg").write_text("[metadata]\nname = x\n"),
        lambda root: (root.parent / "pyproject.toml").write_text("[project]\nname = 'x'\n"),
        lambda root: (root / "Dockerfile").write_text("FROM nvidia/cuda:12.1\n"),
    ],
)
def test_any_change_is_seen(project: Path, computed: list[str], change: Callable[[Path], object]) -> None:
    settings = Settings(root=project)
    plan_cache.plan([project], settings, 1, "check", None, EVERYTHING)
    change(project)
    age(project)
    made = plan_cache.plan([project], settings, 1, "check", None, EVERYTHING)
    assert computed == ["check", "check"]
    assert same(made, planner.plan([project], settings, 1, "check"))


def test_same_size_and_time_are_no_proof(project: Path, computed: list[str]) -> None:
    planned(project)
    path = project / "y.py"
    before = path.stat()
    path.write_text(ODD["y.py"].replace("1.0", "2.0"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    planned(project)
    assert computed == ["check", "check"]


def test_a_file_written_during_the_run_keeps_nothing(project: Path) -> None:
    later = time.time() + 60
    os.utime(project / "hard0.py", (later, later))
    planned(project)
    assert entries() == []


def test_an_own_pack_is_part_of_the_key(project: Path, tmp_path: Path, computed: list[str]) -> None:
    pack_of = tmp_path / "packs" / "mine"
    shutil.copytree(ROOT / "rules" / "sparse", pack_of)
    settings = Settings(root=project, rule_paths=(tmp_path / "packs",))
    plan_cache.plan([project], settings, 1, "check", None, EVERYTHING)
    rule = next(pack_of.glob("*.toml"))
    rule.write_text(rule.read_text() + "\n# another\n")
    plan_cache.plan([project], settings, 1, "check", None, EVERYTHING)
    assert computed == ["check", "check"]


def test_another_version_of_ours_has_a_key_of_its_own(
    project: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(project)
    monkeypatch.setattr(plan_cache, "__version__", "99.0")
    planned(project)
    monkeypatch.setattr(plan_cache, "_own_code", lambda: iter(["edited"]))
    planned(project)
    assert computed == ["check"] * 3


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"device/tensor-cuda", b"device/tensor-CUDA", 1))


def of_another_run(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(path.name.encode(), b"0" * len(path.name), 1))


def repacked(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    """Edited by somebody who knows the format, with a checksum that is right."""

    def edit(path: Path) -> None:
        body = user_folders.load(path.name)
        assert body is not None
        data = json.loads(body)
        changed = change(data)
        user_folders.store(path.name, json.dumps(data if changed is None else changed).encode())

    return edit


@pytest.mark.parametrize(
    "damage",
    [
        cut, flip, of_another_run,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"torchmigrate cache 0\n" + path.read_bytes()[21:]),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to(path)),
        repacked(lambda data: data.pop("notes")),
        repacked(lambda data: data["results"][0].append(1)),  # type: ignore[attr-defined]
        repacked(lambda data: data.update(files_seen="many")),
        repacked(lambda data: data["results"].append(["changed", "/etc/passwd", [], ""])),  # type: ignore[attr-defined]
        repacked(lambda data: data["results"].append(["unchanged", "x.py", [[1, 2]], ""])),  # type: ignore[attr-defined]
        repacked(lambda data: [1]),
    ],
)  # fmt: skip
def test_a_damaged_entry_is_none(project: Path, computed: list[str], damage: Callable[[Path], object]) -> None:
    first = planned(project)
    damage(entries()[0])
    assert same(planned(project), first)
    assert computed == ["check", "check"]


def test_a_cache_that_cannot_be_written_costs_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = planned(project)
    (project.parent / "file").write_text("")
    for base in (project.parent / "file", "/proc"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(base))
        assert same(planned(project), first)


def test_a_full_disk_leaves_no_half_entry(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    planned(project)
    assert entries() == []


def test_what_would_be_written_is_never_kept(project: Path, computed: list[str]) -> None:
    planned(project, "apply")
    assert entries() == []
    shutil.rmtree(project / "notebook")
    for path in project.rglob("*.py"):
        path.write_text("x = 1\n")
    age(project)
    planned(project, "apply")
    planned(project, "apply")
    assert computed == ["apply", "apply"] and len(entries()) == 1


@pytest.mark.parametrize(
    ("error", "kept"), [("line 1: not Python 3 (x)", 1), ("cannot be read: x", 0), ("too large (MemoryError)", 0)]
)
def test_what_may_not_fail_again_is_not_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: str, kept: int
) -> None:
    monkeypatch.setattr(planner, "plan", lambda *_: Plan([Failed(project / "old.py", error)], 1, []))
    planned(project)
    assert len(entries()) == kept


def test_single_files_and_scopes_have_none(project: Path) -> None:
    settings = Settings(root=project)
    plan_cache.plan([project / "hard0.py"], settings, 1, "check", None, EVERYTHING)
    plan_cache.plan([project / "cnn"], settings, 1, "check", None, EVERYTHING)
    planned(project, only=Selection(frozenset({str(project / "hard0.py")})))
    planned(project, no_cache=True)
    assert entries() == []


def test_small_trees_have_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "WORTH_IT", WORTH_IT)
    planned(project)
    assert entries() == []


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folders, "KEPT", 3)
    for number in range(6):
        user_folders.store(f"{number:040}", b"{}")
        os.utime(user_folders.folder() / f"{number:040}", (number, number))
    assert [path.name[-1] for path in entries()] == ["3", "4", "5"]
    assert user_folders.load(f"{5:040}") == b"{}" and user_folders.load(f"{0:040}") is None


def test_an_entry_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folders, "LIMIT", 10)
    user_folders.store("large", b"x" * 11)
    assert entries() == []


def test_many_at_once(project: Path, tmp_path: Path) -> None:
    """Six processes that begin together, on an empty cache: each says the same, and what is left is whole."""
    for number in range(WORTH_IT):
        (project / f"more{number}.py").write_text("x = 1\n")
    age(project)
    command = [sys.executable, "-m", "torchmigrate", "check", "--isolated", "--exit-zero", str(project)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    several = [
        subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    said = {process.communicate() for process in several}
    assert len(said) == 1 and all(process.returncode == 2 for process in several)  # 2: old.py is Python 2
    assert len(entries()) == 1 and user_folders.load(entries()[0].name)


def test_the_command_line_says_the_same_twice(cli: Cli, project: Path, computed: list[str]) -> None:
    for form in ("text", "concise", "json", "github", "gitlab", "junit", "markdown"):
        once = cli("check", str(project), "--output-format", form)
        again = cli("check", str(project), "--output-format", form)
        assert (once.status, once.out, once.err) == (again.status, again.out, again.err)
    assert computed == ["check"]


def test_sarif_takes_its_fixes_from_the_engine(cli: Cli, project: Path, computed: list[str]) -> None:
    once = cli("check", str(project), "--output-format", "sarif")
    assert cli("check", str(project), "--output-format", "sarif").out == once.out
    assert computed == ["check", "check"]


def test_no_cache(cli: Cli, project: Path) -> None:
    cli("check", str(project), "--no-cache")
    assert entries() == []


def test_a_name_that_is_no_text(project: Path, computed: list[str]) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    (project / name).write_text(HARD)
    age(project)
    assert same(planned(project), planned(project))
    assert computed == ["check"]


def test_files_and_rules_are_where_the_key_looks() -> None:
    """What the key hashes of the rules is what the loader reads."""
    loaded = {rule.path for rule in packs.load(cases=False).rules.values()}
    assert loaded <= set(packs.builtin().glob("*/*.toml"))
    assert discovery.SUFFIXES == (".py", ".pyi", ".ipynb")


# ---- entries that somebody else may have made


@pytest.mark.parametrize("where", [".cache", "../.cache"])
def test_a_cache_that_came_with_the_project_is_not_used(
    project: Path, computed: list[str], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in the folder that is looked at, or beside it in the same repository."""
    (project.parent / ".git").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / where))
    planned(project)
    planned(project)
    assert computed == ["check", "check"] and not entries()


@pytest.mark.skipif(os.name == "nt", reason="modes")
def test_a_cache_that_others_can_write_to_is_not_used(project: Path, computed: list[str]) -> None:
    planned(project)
    user_folders.folder().chmod(0o777)
    planned(project)
    assert computed == ["check", "check"]
    user_folders.folder().chmod(0o700)
    planned(project)
    assert computed == ["check", "check"]


def test_a_cache_of_a_relative_name_is_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(project.parent / "home"))
    planned(project)
    assert not (project / "relative").exists()
