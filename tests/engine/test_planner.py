"""From paths to a plan: which results, for which files, in which order; one bad file costs no other."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import planned, python, texts_after, write_plan, write_tree

from torchmigrate.base import file_io
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed, Skipped, Unchanged
from torchmigrate.engine import planner
from torchmigrate.project import context

TRAIN = "import torch\nx = torch.ones(1).cuda()\n"


def test_an_empty_tree(tmp_path: Path) -> None:
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    assert (plan.results, plan.files_seen, plan.notes) == ([], 0, [])


def test_files_without_a_trigger_are_seen_and_no_more(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = 1\n", "broken.py": "x = \n"})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    assert (plan.results, plan.files_seen) == ([], 2)


def test_check_finds_and_changes_nothing(tmp_path: Path) -> None:
    found = planned(write_tree(tmp_path, {"train.py": TRAIN}), "check")
    assert list(found) == ["train.py"]
    result = found["train.py"]
    assert isinstance(result, Unchanged)
    assert [f.rule for f in result.findings] == ["device/tensor-cuda"]


def test_planning_writes_nothing(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN})
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in root.rglob("*") if p.is_file()}
    planned(root)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in root.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"x = torch.cuda(\n", "not Python 3"),
        (b"print 'cuda'\n", "not Python 3"),
        (b"x.cuda(async=True)\n", "line 1: not Python 3 (invalid syntax; `async` is a keyword since Python 3.7"),
        (b"# cuda\n\n\xff\n", "line 3: byte 0xff"),
        (b"cuda = 1\0\n", "NUL byte"),
        (b"# cuda\nx = " + b"(" * 5000 + b")" * 5000 + b"\n", "nested"),
    ],
)
@pytest.mark.parametrize("mode", ["check", "apply"])
def test_one_bad_file_costs_no_other(raw: bytes, why: str, mode: str, tmp_path: Path) -> None:
    found = planned(write_tree(tmp_path, {"bad.py": raw, "good.py": TRAIN}), mode)
    bad = found["bad.py"]
    assert isinstance(bad, Failed)
    assert why in bad.error
    assert isinstance(found["good.py"], Changed if mode == "apply" else Unchanged)


def test_a_bug_of_ours_is_reported_as_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> object:
        raise KeyError("oh")

    monkeypatch.setattr("torchmigrate.engine.worker.rewrite", breaks)
    found = planned(write_tree(tmp_path, {"train.py": TRAIN}))["train.py"]
    assert isinstance(found, Failed)
    assert "internal error: KeyError" in found.error
    assert "test_planner.py" in found.error
    assert "please report" in found.error


def test_skip_file(tmp_path: Path) -> None:
    found = planned(write_tree(tmp_path, {"train.py": "# torchmigrate: skip-file\n" + TRAIN}))
    assert isinstance(found["train.py"], Skipped)


def test_excluded_files_are_told_and_not_touched(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "vendor/x.py": TRAIN})
    found = planned(root, extend_exclude=("vendor",))
    assert isinstance(found["vendor"], Skipped)
    assert set(found) == {"train.py", "vendor", "accel.py"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN})
    (root / "train.py").chmod(0)
    assert isinstance(planned(root)["train.py"], Failed)


def test_a_file_that_vanishes_is_an_error(tmp_path: Path) -> None:
    plan = planner.plan([tmp_path / "absent.py"], Settings(root=tmp_path), 1, "apply")
    assert [type(r).__name__ for r in plan.results] == ["Failed"]


def test_a_file_that_the_disk_does_not_give_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, read = write_tree(tmp_path, {"train.py": TRAIN, "other.py": TRAIN}), file_io.read

    def failing(path: str | Path, most: int | None = None) -> bytes:
        if Path(path).name == "train.py":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path, most)

    monkeypatch.setattr(file_io, "read", failing)
    found = planned(root)
    assert found["train.py"] == Failed(root / "train.py", "cannot be read: Input/output error")
    assert isinstance(found["other.py"], Changed)
    assert found["other.py"].unread == ""


def test_results_are_sorted_by_path(tmp_path: Path) -> None:
    names = [f"{n}.py" for n in ("b", "a", "z/q", "c" * 50)]
    root = write_tree(tmp_path, dict.fromkeys(names, TRAIN))
    paths = [str(r.path) for r in planner.plan([root], Settings(root=root), 1, "apply").results]
    assert paths == sorted(paths)


def test_progress_counts_files_with_work(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": TRAIN, "b.py": TRAIN, "c.py": "x = 1\n"})
    told: list[tuple[int, int]] = []
    planner.plan([root], Settings(root=root), 1, "check", lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_selected_rules_alone(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": TRAIN + "torch.cuda.empty_cache()\n"})
    assert "x = torch.ones(1).cuda()\naccel.empty_cache()" in texts_after(root, select=("memory",))["a.py"]
    assert "accel.device())\ntorch.cuda.empty_cache()" in texts_after(root, ignore=("memory/empty-cache",))["a.py"]


def test_a_pack_of_the_users_own(tmp_path: Path) -> None:
    rule = 'summary = "s"\nsafety = "safe"\nwhy = "w"\n[[rewrite]]\nmatch = "torch.zzz($x)"\nwith = "accel.qqq($x)"\n'
    root = write_tree(tmp_path, {"p/mine/zzz.toml": rule, "src/a.py": "import torch\ntorch.zzz(1)\n"})
    plan = planner.plan([root / "src"], Settings(root=root, rule_paths=(root / "p",)), 1, "apply")
    changed = {r.path.name: r.after.decode() for r in plan.results if isinstance(r, Changed)}
    assert changed["a.py"] == "import torch\nimport accel\naccel.qqq(1)\n"


# ---- the project around the files that were named
def test_the_torch_floor_is_told(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": TRAIN, "requirements.txt": "torch>=2.6\n"})
    assert planner.plan([root], Settings(root=root), 1, "check").notes == [
        "torch >=2.6 inferred from requirements.txt:1"
    ]
    assert planner.plan([root], Settings(root=root, torch=">=2.4"), 1, "check").notes == []


def test_one_file_is_rewritten_as_it_would_be_with_its_project(tmp_path: Path) -> None:
    files = {
        "setup.py": "setup()",
        "pkg/__init__.py": "",
        "pkg/a.py": "from pkg.b import f\n" + TRAIN,
        "pkg/b.py": "f = 1\n",
    }
    root = write_tree(tmp_path, files)
    plan = planner.plan([root / "pkg" / "a.py"], Settings(root=root), 1, "apply")
    changed = {r.path.relative_to(root.resolve()).as_posix(): r for r in plan.results if isinstance(r, Changed)}
    assert set(changed) == {"pkg/a.py", "pkg/accel.py"}
    assert b"from pkg import accel\n" in changed["pkg/a.py"].after
    assert plan.files_seen == 1


@pytest.mark.parametrize(
    ("named", "root"),
    [
        (["."], "."),
        (["pkg"], "."),
        (["pkg/sub/x.py"], "."),
        (["tools"], "tools"),
        (["tools/y.py", "pkg"], "."),
        (["tools/y.py"], "."),
    ],
)
def test_project_root(named: list[str], root: str, tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {"pyproject.toml": "", "pkg/__init__.py": "", "pkg/sub/__init__.py": "", "pkg/sub/x.py": "", "tools/y.py": ""},
    )
    assert context.project_root([tmp_path / n for n in named]) == (tmp_path / root).resolve()


# ---- notebooks
def test_a_notebook_is_rewritten_and_finds_its_helper(tmp_path: Path) -> None:
    cells = [["import torch\n", "x = 1"], ["%time torch.ones(1)\n", "y = torch.ones(1).cuda()"]]
    book = {
        "cells": [{"cell_type": "code", "source": c, "outputs": [], "metadata": {}} for c in cells],
        "metadata": {},
        "nbformat": 4,
    }
    root = write_tree(tmp_path, {"sub/nb.ipynb": json.dumps(book, indent=1)})
    after = texts_after(root)
    assert set(after) == {"sub/nb.ipynb", "sub/accel.py"}
    sources = ["".join(c["source"]) for c in json.loads(after["sub/nb.ipynb"])["cells"]]
    assert "import accel\n" in sources[0]
    assert sources[1] == "%time torch.ones(1)\ny = torch.ones(1, device=accel.device())"


@pytest.mark.slow
# ---- what a run imports
@pytest.mark.parametrize("mode", ["check", "apply"])
def test_a_clean_tree_needs_neither_libcst_nor_git(mode: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = 1\n"})
    ran = python(
        "import sys; from pathlib import Path\nfrom torchmigrate.engine import planner\n"
        "from torchmigrate.config.settings import Settings\n"
        "root = Path(sys.argv[1]); planner.plan([root], Settings(root=root), 1, sys.argv[2])\n"
        "print(sorted({'libcst', 'git', 'torch', 'yaml', 'typer', 'rich'} & set(sys.modules)))",
        str(tmp_path),
        mode,
    )
    assert ran.stdout.strip() == "[]", ran


@pytest.mark.slow
def test_a_module_of_a_package_that_is_a_script_too(tmp_path: Path) -> None:
    files = {"setup.py": "from setuptools import setup\nsetup(name='x')\n", "pkg/__init__.py": ""}
    root = write_tree(tmp_path, {**files, "pkg/net.py": f"{TRAIN}if __name__ == '__main__':\n    print(x)\n"})
    once = write_plan(root)
    assert b"except ImportError:  # run as a script\n    import accel\n" in once["pkg/net.py"]
    assert not write_plan(root)
    for arguments in (["-m", "pkg.net"], ["pkg/net.py"]):
        command = [sys.executable, *arguments]
        assert "tensor" in subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
