"""`--since` and `--staged`: only these files are told and rewritten, and the whole project is still read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, git, planned, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Unchanged
from torchmigrate.engine.planner import plan
from torchmigrate.project.discovery import Selection
from torchmigrate.vcs import git_tree

Cli = Callable[..., Ran]
CUDA = "import torch\n\nx = torch.zeros(3).cuda()\n"
NAMES = ("check", "--output-format", "concise")


@pytest.fixture
def repository(here: Path) -> Path:
    """One commit with five files that all have work, on a branch `main`."""
    git(here, "init", "-q", "-b", "main")
    write_tree(here, {f"{name}.py": CUDA + f"# {name}\n" * 20 for name in "abcde"})
    commit(here)
    return here


def commit(directory: Path) -> None:
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "x")


def told(ran: Ran) -> list[str]:
    """The files that findings are in."""
    return sorted({line.split(":")[0] for line in ran.out.splitlines()})


def change_all_ways(root: Path) -> None:
    (root / "a.py").write_text(CUDA + "# other\n")  # modified, unstaged
    (root / "b.py").write_text(CUDA + "# other\n")
    git(root, "add", "b.py")  # modified, staged
    git(root, "mv", "c.py", "renamed.py")
    git(root, "rm", "-q", "d.py")
    write_tree(root, {"added.py": CUDA, "pkg/untracked name.py": CUDA, "ignored.py": CUDA, ".gitignore": "ignored.py"})
    git(root, "add", "added.py")


def test_since_takes_all_kinds_of_change(repository: Path, cli: Cli) -> None:
    change_all_ways(repository)
    ran = cli(*NAMES, "--since", "HEAD")
    assert told(ran) == ["a.py", "added.py", "b.py", "pkg/untracked name.py", "renamed.py"]
    assert "note: only 6 files changed since HEAD\n" in ran.err  # .gitignore is one
    assert ran.last.startswith("Found 5 problems in 5 of 5 files.")
    assert told(cli(*NAMES)) == ["a.py", "added.py", "b.py", "e.py", "pkg/untracked name.py", "renamed.py"]


def test_staged_takes_what_the_next_commit_adds_or_changes(repository: Path, cli: Cli) -> None:
    change_all_ways(repository)
    assert told(cli(*NAMES, "--staged")) == ["added.py", "b.py", "renamed.py"]


def test_staged_before_the_first_commit(here: Path, cli: Cli) -> None:
    git(here, "init", "-q")
    write_tree(here, {"a.py": CUDA, "b.py": CUDA})
    git(here, "add", "a.py")
    assert told(cli(*NAMES, "--staged")) == ["a.py"]


def test_what_others_did_since_is_not_this_branchs_change(repository: Path, cli: Cli) -> None:
    git(repository, "switch", "-qc", "topic")
    (repository / "a.py").write_text(CUDA)
    commit(repository)
    git(repository, "switch", "-q", "main")
    (repository / "b.py").write_text(CUDA)
    commit(repository)
    git(repository, "switch", "-q", "topic")
    assert told(cli(*NAMES, "--since", "main")) == ["a.py"]
    assert told(cli(*NAMES, "--since", "main~1")) == ["a.py"]


def test_histories_without_a_common_commit(repository: Path, cli: Cli) -> None:
    git(repository, "switch", "-q", "--orphan", "other")
    git(repository, "checkout", "-q", "main", "--", "b.py")
    write_tree(repository, {"new.py": CUDA})
    commit(repository)
    ran = cli(*NAMES, "--since", "main")
    assert told(ran) == ["new.py"]
    assert "note: HEAD and main have no common ancestor here" in ran.err


def test_apply_rewrites_these_alone(repository: Path, cli: Cli) -> None:
    write_tree(repository, {"a.py": CUDA})
    git(repository, "add", "a.py")
    before = (repository / "b.py").read_bytes()
    ran = cli("apply", "--staged")
    assert (ran.status, ran.last) == (0, "Rewrote 1 of 1 file and added accel.py: 1 edit by 1 rule.")
    assert "accel.device()" in (repository / "a.py").read_text()
    assert (repository / "b.py").read_bytes() == before
    git(repository, "add", "-A")
    commit(repository)
    write_tree(repository, {"c.py": CUDA})
    dry = cli("apply", "-n", "--since", "HEAD")
    assert (dry.status, dry.out.count("+++ b/"), "+++ b/c.py" in dry.out) == (1, 1, True)


def test_the_whole_project_is_still_read(repository: Path, cli: Cli) -> None:
    """A class with a `cuda` of its own, in a file that did not change, makes the rewrite unsafe."""
    write_tree(repository, {"batch.py": "import torch\n\n\nclass Batch:\n    def cuda(self):\n        return self\n"})
    commit(repository)
    write_tree(repository, {"train.py": "import torch\n\n\ndef step(batch):\n    return torch.relu(batch.cuda())\n"})
    for arguments in (["--since", "HEAD"], ["train.py"], []):
        assert "train.py:5:23: device/tensor-cuda:" in (out := cli(*NAMES, *arguments).out)
        assert next(line for line in out.splitlines() if "train.py" in line).endswith("[unsafe fix]"), arguments


def test_results_are_those_of_a_whole_run(repository: Path) -> None:
    whole = planned(repository)
    path = str(repository.resolve() / "b.py")
    only = plan([repository], Settings(root=repository), 1, "apply", None, Selection(frozenset({path})))
    assert [r for r in only.results if r.path.name == "b.py"] == [whole["b.py"]]
    assert {r.path.name for r in only.results} == {"b.py", "accel.py"}
    assert only.files_seen == 1
    assert not any(isinstance(r, Unchanged) for r in only.results)


def test_paths_restrict_further(repository: Path, cli: Cli) -> None:
    write_tree(repository, {"a.py": CUDA, "sub/f.py": CUDA})
    assert told(cli(*NAMES, "--since", "HEAD", "sub")) == ["sub/f.py"]


def test_nothing_changed(repository: Path, cli: Cli) -> None:
    ran = cli("check", "--since", "HEAD")
    assert (ran.status, ran.out) == (0, "")
    assert "note: no file changed since HEAD\n" in ran.err
    ran = cli("apply", "--staged")
    assert (ran.status, "note: no file staged for the next commit\n" in ran.err) == (0, True)


def test_a_file_that_is_named_and_missing_is_still_an_error(repository: Path, cli: Cli) -> None:
    ran = cli("check", "--since", "HEAD", ".", "nowhere.py")
    assert (ran.status, "error: nowhere.py: no such file or directory\n" in ran.err) == (2, True)


def test_a_broken_file_that_did_not_change_is_none_of_this_run(repository: Path, cli: Cli) -> None:
    write_tree(repository, {"old.py": "import torch\nprint 'cuda'\n"})
    commit(repository)
    write_tree(repository, {"a.py": CUDA})
    assert cli("check", "--since", "HEAD").status == 1
    write_tree(repository, {"old.py": "import torch\nprint 'cuda!'\n"})
    ran = cli("check", "--since", "HEAD")
    assert (ran.status, "error: old.py: line 2" in ran.err) == (2, True)


def test_staged_and_changed_again_is_said(repository: Path, cli: Cli) -> None:
    (repository / "a.py").write_text(CUDA)
    git(repository, "add", "a.py")
    (repository / "a.py").write_text(CUDA * 2)
    ran = cli(*NAMES, "--staged")
    assert "note: staged and changed again since; read as they are on disk: a.py\n" in ran.err
    assert len(ran.out.splitlines()) == 2
    ran = cli("apply", "--staged")
    assert (ran.status, "a.py   (unstaged)" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("mian", "did you mean `main`?"),
        ("0123456", "name a branch, a tag or a commit, as `main` or `HEAD~3`"),
        ("--output=x", "name a branch, a tag or a commit, as `main` or `HEAD~3`"),
        ("", "name a branch, a tag or a commit, as `main` or `HEAD~3`"),
    ],
)
def test_a_revision_that_there_is_not(repository: Path, cli: Cli, name: str, help: str) -> None:
    for command in ("check", "apply"):
        ran = cli(command, f"--since={name}")
        assert (ran.status, ran.out) == (2, "")
        assert ran.err == f"error: --since: git knows no commit `{name}` in {repository}\nhelp: {help}\n"
    assert sorted(os.listdir(repository)) == [".git", *(f"{n}.py" for n in "abcde")]


def test_a_shallow_clone_says_how_to_fetch(repository: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    git(repository, "clone", "-q", "--depth", "1", f"file://{repository}", "../shallow")
    monkeypatch.chdir(repository.parent / "shallow")
    ran = cli("check", "--since", "release-1")
    assert ran.err.endswith("help: this clone is shallow; fetch it first: git fetch origin release-1\n")


@pytest.mark.parametrize("option", [["--since", "HEAD"], ["--staged"]])
def test_outside_of_git(here: Path, cli: Cli, option: list[str]) -> None:
    write_tree(here, {"a.py": CUDA})
    ran = cli("check", *option)
    assert ran.status == 2
    assert ran.err.startswith(f"error: {option[0]} asks git, and this directory is in no git repository")
    assert f"\nhelp: leave {option[0]} out" in ran.err


def test_one_choice_at_a_time(repository: Path, cli: Cli) -> None:
    ran = cli("check", "--since", "HEAD", "--staged")
    assert (ran.status, ran.err) == (
        2,
        "error: --since and --staged are two choices of files\nhelp: choose one\n",
    )


def test_from_a_directory_below_and_through_a_link(repository: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(repository, {"sub/f.py": CUDA, "a.py": CUDA})
    (repository.parent / "link").symlink_to(repository)
    monkeypatch.chdir(repository / "sub")
    assert told(cli(*NAMES, "--since", "HEAD")) == ["f.py"]
    monkeypatch.chdir(repository.parent)
    assert [Path(path).name for path in told(cli(*NAMES, "--since", "HEAD", "link"))] == ["a.py", "f.py"]


def test_the_users_settings_of_git_change_nothing(repository: Path, cli: Cli) -> None:
    for key, value in {"diff.relative": "true", "diff.external": "false", "diff.renames": "copies"}.items():
        git(repository, "config", key, value)
    git(repository, "config", "core.hooksPath", "hooks")
    write_tree(repository, {"sub/f.py": CUDA, "a.py": CUDA})
    git(repository, "add", "sub")
    index = (repository / ".git" / "index").read_bytes()
    assert told(cli(*NAMES, "--since", "HEAD")) == ["a.py", "sub/f.py"]
    assert told(cli(*NAMES, "--staged")) == ["sub/f.py"]
    assert (repository / ".git" / "index").read_bytes() == index


def test_a_name_that_is_no_text(repository: Path) -> None:
    if subprocess.run(["touch", os.fsencode(repository) + b"/\xff.py"], check=False).returncode:
        pytest.skip("this file system takes UTF-8 names only")
    found = git_tree.repository(repository)
    assert found is not None
    assert os.fsencode(found.changed("HEAD")[0].name) == b"\xff.py"


def test_a_save_in_the_second_of_the_commit_is_seen(repository: Path, cli: Cli) -> None:
    """Of a file of the same size and second, git reads the bytes if its index is of that second, too."""
    git(repository, "config", "core.trustctime", "false")
    file, index, moment = repository / "a.py", repository / ".git" / "index", 1_700_000_000
    os.utime(file, (moment, moment))
    git(repository, "update-index", "--refresh")
    text = file.read_text()
    file.write_text(text.replace("# a", "# z"))
    for saved in (file, index):
        os.utime(saved, (moment, moment))
    assert told(cli(*NAMES, "--since", "main")) == ["a.py"]
