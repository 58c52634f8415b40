"""Discovery: git's list or a walk, exclusions, symlinks, no file twice."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest
from conftest import cpu_seconds, git, python

from torchmigrate.base.globs import Globs, glob_body
from torchmigrate.config.config_file import load
from torchmigrate.config.settings import Settings
from torchmigrate.project.discovery import discover
from torchmigrate.vcs import git_tree


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")


def found(root: Path, *paths: Path, **settings: object) -> list[str]:
    files = discover(paths or [root], Settings(root=root, **settings))  # type: ignore[arg-type]
    return [f.path.relative_to(root).as_posix() for f in files if not f.skipped_reason and not f.error]


def reasons(root: Path, *paths: Path, **settings: object) -> dict[str, str]:
    files = discover(paths or [root], Settings(root=root, **settings))  # type: ignore[arg-type]
    return {
        os.path.relpath(f.path, root): f.skipped_reason or f.error or "" for f in files if f.skipped_reason or f.error
    }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make(tmp_path, "b.py", "a.pyi", "nb.ipynb", "pkg/c.py", "pkg/data.txt", "pkg/c.pyc", "README.md", "script")
    return tmp_path


EXPECTED = ["a.pyi", "b.py", "nb.ipynb", "pkg/c.py"]


def test_a_walk(tree: Path) -> None:
    make(tree, ".venv/x.py", "build/x.py", "env/x.py", "env/pyvenv.cfg", "pkg/node_modules/x.py", ".git-not/x.py")
    make(tree, ".ipynb_checkpoints/nb.ipynb")
    assert found(tree) == [".git-not/x.py", *EXPECTED]


def test_git_lists_what_it_tracks_or_would(tree: Path) -> None:
    git(tree, "init", "-q")
    make(
        tree,
        "only/ign.py",
        "ignored/x.py",
        "ignored/sub/y.py",
        "pkg/ign.py",
        "venv/x.py",
        "build/tracked.py",
        "new file.py",
        "é\n.py",
        "gone.py",
    )
    (tree / ".gitignore").write_text("ignored/\nign.py\nvenv\n")
    git(tree, "add", "b.py", "gone.py", "pkg", "build")
    (tree / "gone.py").unlink()
    assert found(tree) == sorted([*EXPECTED, "build/tracked.py", "new file.py", "é\n.py"])
    assert found(tree, tree / "pkg") == ["pkg/c.py"]
    # named, so meant: an ignored directory is walked, an ignored file taken
    assert found(tree, tree / "ignored") == ["ignored/sub/y.py", "ignored/x.py"]
    assert found(tree, tree / "ignored" / "sub") == ["ignored/sub/y.py"]
    assert found(tree, tree / "only") == []
    assert found(tree, tree / "pkg" / "ign.py") == ["pkg/ign.py"]


def test_a_nested_repository_is_said_to_be_left_out(tree: Path) -> None:
    git(tree, "init", "-q")
    make(tree, "other/x.py")
    git(tree / "other", "init", "-q")
    assert found(tree) == EXPECTED
    assert "another git repository" in reasons(tree)["other"]
    assert found(tree, tree / "other") == ["other/x.py"]


def test_without_git_the_tree_is_walked(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tree, "init", "-q")
    monkeypatch.setitem(sys.modules, "git", None)  # as where there is no executable: the import fails
    assert git_tree.repository(tree) is None
    assert found(tree) == EXPECTED


def test_where_git_refuses_to_answer_the_tree_is_walked(tree: Path) -> None:
    (tree / ".git").write_text("gitdir: nowhere\n")
    assert found(tree) == EXPECTED


@pytest.mark.parametrize("in_git", [True, False])
def test_exclusions_win_and_are_said(tree: Path, in_git: bool) -> None:
    if in_git:
        git(tree, "init", "-q")
    settings = {"extend_exclude": ("pkg", "nb.*")}
    assert found(tree, **settings) == ["a.pyi", "b.py"]
    assert set(reasons(tree, **settings).values()) == {"excluded by `pkg`", "excluded by `nb.*`"}
    # also over a path that is named
    assert reasons(tree, tree / "pkg" / "c.py", **settings) == {"pkg/c.py": "excluded by `pkg`"}
    assert reasons(tree, tree / "pkg", **settings) == {"pkg": "excluded by `pkg`"}
    make(tree, "venv/x.py")
    assert reasons(tree, tree / "venv" / "x.py") == {"venv/x.py": "excluded by `venv`"}


@pytest.mark.parametrize("in_git", [True, False], ids=["git", "walk"])
def test_templates_are_skipped_and_said(tree: Path, in_git: bool) -> None:
    """Found in microsoft/LoRA: cookiecutter's files are no Python before they are filled in."""
    make(tree, "templates/{{cookiecutter.name}}/run.py", "templates/run_{{name}}.py", "templates/run.py")
    if in_git:
        git(tree, "init", "-q")
    names = found(tree)
    assert "templates/run.py" in names and not any("{{" in name for name in names)
    words = {why for name, why in reasons(tree).items() if "{{" in name}
    assert words == {"a template: its name is filled in later"}


def test_an_explicit_file_of_any_suffix_is_taken(tree: Path) -> None:
    assert found(tree, tree / "script", tree / "b.py") == ["b.py", "script"]


@pytest.mark.parametrize("in_git", [False, True])
def test_scripts_whose_first_line_names_python_are_taken(tree: Path, in_git: bool) -> None:
    """A file that no one can execute, another language's, a binary's, a pipe and a link are none."""
    texts = {
        "train": (b"#!/usr/bin/python3\nimport torch\n", 0o755),
        "pkg/eval": (b"#!/usr/bin/env python\n", 0o755),
        "get_data": (b"#!/bin/bash\npython train\n", 0o755),
        "notes": (b"#!/usr/bin/python3\n", 0o644),
        "model": (b"\x7fELF python", 0o755),
        "v1.5": (b"#!/usr/bin/python3\n", 0o755),
    }
    for name, (content, mode) in texts.items():
        (tree / name).write_bytes(content)
        (tree / name).chmod(mode)
    os.mkfifo(tree / "pipe", 0o755)
    (tree / "linked").symlink_to("train")
    if in_git:
        git(tree, "init")
        git(tree, "add", "-A")
    assert found(tree) == sorted([*EXPECTED, "pkg/eval", "train"])
    assert [file.text for file in discover([tree], Settings(root=tree)) if file.path.name in ("train", "eval")] == [
        False
    ] * 2


def test_each_file_once(tree: Path) -> None:
    (tree / "link.py").symlink_to("b.py")
    assert found(tree, tree, tree / "b.py", tree / "pkg", tree / "pkg" / ".." / "b.py", tree / "link.py") == EXPECTED


@pytest.mark.parametrize("in_git", [True, False])
def test_symlinks(tree: Path, in_git: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    make(outside, "shared.py", "lib/x.py")
    if in_git:
        git(tree, "init", "-q")
    (tree / "shared.py").symlink_to(outside / "shared.py")
    (tree / "lib").symlink_to(outside / "lib")
    (tree / "dir.py").symlink_to(outside / "lib")
    (tree / "broken.py").symlink_to("nowhere.py")
    (tree / "loop.py").symlink_to("loop.py")
    files = discover([tree], Settings(root=tree))
    good = [f.path for f in files if not f.error and not f.skipped_reason]
    assert sorted(good) == sorted(tree / name for name in EXPECTED)
    errors = {f.path.name: f.error for f in files if f.error}
    assert errors == {"broken.py": "broken symlink to nowhere.py", "loop.py": "broken symlink to loop.py"}
    # a directory that is named is followed
    assert [f.path for f in discover([tree / "lib"], Settings(root=tree))] == [outside / "lib" / "x.py"]


def test_what_is_not_there_is_an_error(tree: Path) -> None:
    assert reasons(tree, tree / "nowhere.py", tree / "b.py") == {"nowhere.py": "no such file or directory"}
    os.mkfifo(tree / "fifo.py")
    assert reasons(tree, tree / "fifo.py") == {"fifo.py": "not a regular file"}
    assert "fifo.py" not in found(tree)


@pytest.mark.parametrize(
    ("pattern", "matches", "not_these"),
    [
        ("tests", ["tests/a.py", "x/tests/a.py", "tests"], ["tests2/a.py", "my_tests.py"]),
        ("tests/", ["tests/a.py"], ["tests.py"]),
        ("*_pb2.py", ["a_pb2.py", "x/a_pb2.py"], ["a_pb2.pyi"]),
        ("src/gen/*", ["src/gen/a.py", "src/gen/b/c.py"], ["x/src/gen/a.py", "src/a.py"]),
        ("**/gen/*.py", ["gen/a.py", "x/y/gen/a.py"], ["gen/b/a.txt"]),
        ("a/**/z.py", ["a/z.py", "a/b/c/z.py"], ["b/a/z.py"]),
        ("/top.py", ["top.py"], ["x/top.py"]),
        ("[!a]?.py", ["bc.py"], ["ac.py", "b.py"]),
        ("a+b.py", ["a+b.py"], ["aab.py"]),
    ],
)
def test_globs(pattern: str, matches: list[str], not_these: list[str]) -> None:
    globs = Globs([pattern])
    assert [path for path in matches + not_these if globs.match(path)] == matches


def test_one_file_costs_no_git(tree: Path) -> None:
    git(tree, "init", "-q")
    code = """
import sys; from pathlib import Path
from torchmigrate.config import config_file
from torchmigrate.project import discovery
path = Path(sys.argv[1]); assert len(discovery.discover([path], config_file.load([path]))) == 1
print([m for m in ("git", "rich", "libcst", "torch") if m in sys.modules])
"""
    assert python(code, str(tree / "b.py")).stdout == "[]\n"


def _reference(glob: str, path: str) -> bool:
    """What a glob means, by trying all ways."""
    if not glob:
        return not path
    if glob.startswith("**/"):
        rests = [path, *(path[i + 1 :] for i, c in enumerate(path) if c == "/")]
        return any(_reference(glob[3:], rest) for rest in rests)
    if glob.startswith("**"):
        return any(_reference(glob[2:], path[i:]) for i in range(len(path) + 1))
    if glob.startswith("*"):
        most = path.find("/") if "/" in path else len(path)
        return any(_reference(glob[1:], path[i:]) for i in range(most + 1))
    return bool(path) and (path[0] == glob[0] or (glob[0] == "?" and path[0] != "/")) and _reference(glob[1:], path[1:])


@pytest.mark.slow
def test_globs_mean_the_same_without_going_back() -> None:
    draw = random.Random(0)
    matched = 0
    for _ in range(20_000):
        glob = "".join(draw.choices(("a", "b", "/", "*", "**/", "**", "?"), k=draw.randint(1, 8)))
        if "***" in glob:
            continue
        path = "".join(draw.choices("aab/", k=draw.randint(1, 9)))
        expected = _reference(glob, path)
        assert bool(re.fullmatch(glob_body(glob), path)) == expected, (glob, path)
        matched += expected
    assert matched > 500


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 30 + "*b", "a" * 250),
        ("**/a/**/a/**/a/**/b", "a/" * 2000),
        ("**a**a**a**b", "a" * 4000),
        ("**/*a*a*a*b/**/c", "a/" * 1000 + "a" * 250),
        ("?*" * 30 + "b", "a" * 250),
    ],
)
def test_no_glob_takes_long(glob: str, path: str) -> None:
    found: list[object] = []
    assert cpu_seconds(lambda: found.append(Globs([glob]).match(path))) < 20  # what tries all ways takes hours
    assert found == [None]


def test_the_root_of_the_settings_is_what_globs_are_relative_to(tree: Path) -> None:
    (tree / "pyproject.toml").write_text("[tool.torchmigrate]\nextend-exclude = ['pkg/*']\n")
    files = discover([tree / "pkg"], load([tree / "pkg"]))
    assert [f.skipped_reason for f in files] == ["excluded by `pkg/*`"]


def test_a_link_out_of_the_tree_is_never_written_through(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "outside.py").write_text("x = 1\n")
    (tree / "link.py").symlink_to(tmp_path / "outside.py")
    found = discover([tree], Settings(root=tree))
    assert [(f.path, f.skipped_reason) for f in found] == [
        (tree / "link.py", f"a link out of the tree, to {tmp_path / 'outside.py'}")
    ]
