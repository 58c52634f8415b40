"""Changes of a file that git could not give back, and that `git status` says nothing of: `apply` does not write over
them. Each has an innocent twin: the same knob is turned, and nothing is lost."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, git, write_tree

from torchmigrate.vcs import git_tree

Cli = Callable[..., Ran]
CUDA = "import torch\n\nx = torch.zeros(3).cuda()\n"
MINE = "import torch\n\nx = torch.zeros(4).cuda()\n"  # of the same size

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the filters are shell commands")


@pytest.fixture
def tree(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "t")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@example.org")
    git(here, "init", "-q", "-b", "main")
    write_tree(here, {"a.py": CUDA, "b.py": CUDA})
    git(here, "add", "-A")
    git(here, "commit", "-qm", "x")
    return here


def _flag(name: str) -> Callable[[Path], None]:
    return lambda tree: git(tree, "update-index", f"--{name}", "a.py") and None


def _sparse(tree: Path) -> None:
    """The file lies outside of what is checked out, and git is told that it may be there all the same."""
    git(tree, "config", "sparse.expectFilesOutsideOfPatterns", "true")
    git(tree, "sparse-checkout", "set", "--no-cone", "/b.py")
    write_tree(tree, {"a.py": CUDA})


def _same_times(tree: Path) -> None:
    """Git compares sizes and whole seconds, and the change leaves both."""
    git(tree, "config", "core.checkStat", "minimal")
    git(tree, "config", "core.trustctime", "false")
    for name in ("a.py", "b.py"):
        os.utime(tree / name, (1_000_000_000, 1_000_000_000))
    git(tree, "status")
    os.utime(tree / ".git" / "index", (1_500_000_000, 1_500_000_000))


KNOBS: dict[str, Callable[[Path], None]] = {
    "assume unchanged": _flag("assume-unchanged"),
    "skip in the work tree": _flag("skip-worktree"),
    "sparse checkout": _sparse,
    "times of the change before": _same_times,
}


@pytest.mark.parametrize("knob", KNOBS)
def test_a_change_that_git_does_not_show(tree: Path, cli: Cli, knob: str) -> None:
    KNOBS[knob](tree)
    assert cli("apply", "-n").status == 1
    (tree / "a.py").write_text(MINE)
    if knob == "times of the change before":
        os.utime(tree / "a.py", (1_000_000_000, 1_000_000_000))
    assert git(tree, "status", "--porcelain") == ""  # the control
    for arguments in ([], ["--commit"]):
        ran = cli("apply", *arguments)
        assert ran.status == 2, ran.err
        assert "  a.py   (changed, which `git status` hides)\n" in ran.err
        assert ((tree / "a.py").read_text(), (tree / "b.py").read_text()) == (MINE, CUDA)
    assert cli("apply", "--allow-dirty").status == 0
    assert cli("undo").status == 0
    assert (tree / "a.py").read_text() == MINE


@pytest.mark.parametrize("knob", KNOBS)
@pytest.mark.parametrize("arguments", [(), ("--commit",)])
def test_a_file_that_is_as_git_has_it(tree: Path, cli: Cli, knob: str, arguments: tuple[str, ...]) -> None:
    """The innocent twins."""
    KNOBS[knob](tree)
    ran = cli("apply", *arguments)
    assert ran.status == 0, ran.err
    assert (tree / "a.py").read_text() != CUDA


def _blob(tree: Path, name: str = "a.py") -> str:
    return str(git(tree, "rev-parse", f"HEAD:{name}").strip())


def _other(tree: Path) -> str:
    write_tree(tree.parent, {"other": "other\n"})
    return str(git(tree, "hash-object", "-w", str(tree.parent / "other")).strip())


def test_content_that_git_would_give_back_in_another_form(tree: Path, cli: Cli) -> None:
    other = _other(tree)
    git(tree, "replace", _blob(tree), other)
    assert git(tree, "status", "--porcelain") == ""
    ran = cli("apply")
    assert (ran.status, "  a.py   (git gives other content in its place)" in ran.err) == (2, True), ran.err
    git(tree, "replace", "-d", _blob(tree))
    git(tree, "replace", _other(tree), _blob(tree))  # of a file that nobody writes
    assert cli("apply").status == 0


def test_content_that_git_has_lost(tree: Path, cli: Cli) -> None:
    blob = _blob(tree)
    write_tree(tree, {"c.py": MINE})
    git(tree, "add", "c.py")
    (tree / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert git(tree, "status", "--porcelain") == "A  c.py\n"
    ran = cli("apply")
    assert ran.status == 2
    assert all(f"  {name}   (git has lost its content)\n" in ran.err for name in ("a.py", "b.py")), ran.err
    assert "c.py" not in ran.err
    git(tree, "hash-object", "-w", "a.py")
    assert cli("apply").status == 0


def test_a_staged_change_behind_a_replaced_commit_gets_into_no_commit(tree: Path, cli: Cli) -> None:
    """`git status` compares the index with the replacement, which has the change."""
    head = git(tree, "rev-parse", "HEAD").strip()
    (tree / "a.py").write_text(MINE)
    git(tree, "add", "a.py")
    made = git(tree, "commit-tree", "-m", "other", git(tree, "write-tree").strip()).strip()
    git(tree, "replace", head, made)
    assert git(tree, "status", "--porcelain") == ""
    ran = cli("apply", "--commit")
    assert (ran.status, "  a.py   (staged)\n" in ran.err) == (2, True), ran.err
    git(tree, "replace", "-d", head)
    git(tree, "reset", "-q", "--hard")
    git(tree, "replace", head, made)
    ran = cli("apply", "--commit", "b.py")  # what git really holds is what the commit builds on
    assert ran.status == 0, ran.err
    git(tree, "replace", "-d", head)
    assert git(tree, "show", "HEAD:a.py") == CUDA


def test_an_untracked_file_that_the_index_hides(tree: Path) -> None:
    """What no entry of the index names is untracked, whatever git lists: here it is asked for nothing else."""
    write_tree(tree, {"new.py": CUDA})
    found = git_tree.repository(tree)
    assert found is not None
    assert list(found._hidden({"new.py": CUDA.encode(), "a.py": CUDA.encode()})) == [("new.py", "untracked")]


# ---- names that an index may hold


def _index(tree: Path, *names: str) -> None:
    """Write an index by hand: git itself refuses such names, and lists them."""
    blob = bytes.fromhex(_blob(tree))
    entries = b""
    for name in sorted(map(os.fsencode, names)):
        entry = bytes(24) + struct.pack(">I", 0o100644) + bytes(12) + blob + struct.pack(">H", len(name)) + name
        entries += entry.ljust(len(entry) + 8 - len(entry) % 8, b"\0")
    raw = struct.pack(">4sII", b"DIRC", 2, len(names)) + entries
    (tree / ".git" / "index").write_bytes(raw + hashlib.sha1(raw).digest())


def test_an_index_that_names_files_outside(tree: Path, cli: Cli) -> None:
    outside = write_tree(tree.parent / "outside", {"mine.py": CUDA})
    write_tree(tree, {".git/evil.py": CUDA, "sub/c.py": CUDA})
    names = [
        str(outside / "mine.py"),
        "../outside/mine.py",
        "sub/../../outside/mine.py",
        ".git/evil.py",
        ".GIT/evil.py",
    ]
    _index(tree, *names, "./b.py", "sub//c.py", "a.py", "sub/c.py")
    assert git(tree, "ls-files").count("mine.py") == 3  # the control
    ran = cli("check", "--output-format", "concise")
    assert {line.partition(":")[0] for line in ran.out.splitlines()} == {"a.py", "b.py", "sub/c.py"}
    assert cli("apply", "--allow-dirty").status == 0
    assert (outside / "mine.py").read_text() == (tree / ".git" / "evil.py").read_text() == CUDA
    assert sorted(path.name for path in outside.iterdir()) == ["mine.py"]
    assert "accel" in (tree / "a.py").read_text() and "accel" in (tree / "sub" / "c.py").read_text()
    found = git_tree.repository(tree)
    assert found is not None
    assert {*found.files(tree)} == {"a.py", "b.py", "accel.py", "sub/c.py", "sub/accel.py"}
    assert all(path.is_relative_to(tree) for path in [*found.staged(), *found.changed("HEAD")])


# ---- innocent twins whose bytes differ from git's


def _clean(tree: Path, cli: Cli, *names: str) -> None:
    assert git(tree, "status", "--porcelain") == ""
    ran = cli("apply")
    assert ran.status == 0, ran.err
    assert all("accel" in (tree / name).read_text() for name in names)


def test_line_ends_that_git_converts(tree: Path, cli: Cli) -> None:
    git(tree, "config", "core.autocrlf", "true")
    name = '"odd\nname".py'
    write_tree(tree, {name: CUDA})
    git(tree, "add", name)
    git(tree, "commit", "-qm", "y")
    for path in (tree / "a.py", tree / name):
        path.write_bytes(CUDA.replace("\n", "\r\n").encode())
    git(tree, "add", "-A")
    _clean(tree, cli, "a.py", name)
    assert b"\r\n" in (tree / name).read_bytes()


@pytest.mark.parametrize("scope", ["--global", "--local"])
def test_a_filter_is_the_users_own_or_none(tree: Path, cli: Cli, scope: str) -> None:
    """What strips a user's notebooks of results strips them of no change; the repository's own does not run."""
    git(tree, "config", scope, "filter.strip.clean", "sed -e 's/ *# result.*//'")
    write_tree(tree, {".gitattributes": "*.py filter=strip\n"})
    (tree / "a.py").write_text(CUDA.replace("()\n", "()  # result 7\n"))
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "y")
    if scope == "--global":
        _clean(tree, cli, "a.py")
        assert "# result 7" in (tree / "a.py").read_text()
    else:
        assert cli("apply").status == 2
        assert "# result 7" in (tree / "a.py").read_text()


def test_other_hashes_of_git(here: Path, cli: Cli) -> None:
    made = subprocess.run(["git", "init", "-q", "--object-format=sha256"], cwd=here, check=False)
    if made.returncode:
        pytest.skip("this git knows SHA-1 alone")
    write_tree(here, {"a.py": CUDA.replace("\n", "\r\n"), ".gitattributes": "*.py text\n"})
    git(here, "add", "-A")
    git(here, "commit", "-qm", "x")
    _clean(here, cli, "a.py")


def test_a_mode_that_git_does_not_look_at(tree: Path, cli: Cli) -> None:
    git(tree, "config", "core.fileMode", "false")
    (tree / "a.py").chmod(0o755)
    _clean(tree, cli, "a.py")
    assert (tree / "a.py").stat().st_mode & 0o777 == 0o755
    git(tree, "config", "core.fileMode", "true")
    git(tree, "checkout", "-q", ".")
    (tree / "accel.py").unlink()
    (tree / "a.py").chmod(0o755)
    assert cli("apply").status == 2
